"""The Durable Streams protocol (version 1.0), without sockets and without an engine: what is asked, what is answered.

Everything here is a pure function of what it is given.

    words.py          names of headers, rules for browsers
    offsets.py        places in a stream as opaque tokens
    content_types.py  what a stream holds
    json_mode.py      JSON bodies into messages, and back
    asks.py           what a request asks for, validated
    answers.py        what became of it, as a response
    sse.py            events of a live tail
    caching.py        ETags, cursors, Cache-Control
    names.py          which streams and buckets may exist
    frames.py         bodies of append-batch
"""
