"""Durable Streams on the engine: the acting half. What is asked and answered is decided in `api.streams`, which is pure.

service.py    one object that makes, appends to, reads and removes streams by their names, for any address they have
making.py     streams are made as they are asked for, or found as they are wanted, forks among them
trouble.py    what may be wrong, and the answers to it
chunks.py     runs of records, read once for all who ask for them
views.py      how readers of one kind see a stream
payload.py    records into what a reader gets, and back
tails.py      readers that wait for more: long-polls and event streams, woken by the apply
routes.py     the protocol's own address, /v1/stream/…
topics.py     any partition of any topic, read-only, at /v1/topic/…
"""
