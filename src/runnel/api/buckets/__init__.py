"""Streams in buckets: `/{bucket}/{stream}` and `/{bucket}/{affinity}/{stream}`, as Ursula's users know them.

The protocol is that of `api/streams`; here is what stands around it. Pure pieces first, the acting part last.

    addresses.py     what may be a bucket, an affinity key, a stream; which place that makes
    attributes.py    the JSON that an application keeps beside a stream
    records.py       places counted in records: asks, NDJSON, envelopes
    transactions.py  appends to several streams, all or none
    bootstrap.py     a snapshot and what came after it, in one answer
    service.py       all of it on the engine
    tails.py, pen.py live reads by record; long answers, written as fast as they are taken
    answers.py       statuses and headers beyond those of the protocol
    streams.py       the protocol at these addresses
    routes.py        the table of addresses
"""
