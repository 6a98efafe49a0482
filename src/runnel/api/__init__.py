"""The HTTP door: what web clients meet.

The server knows HTTP and nothing of streams; `streams/` knows the protocol and nothing of sockets.

server.py       listener, time-outs, drain            limits.py      every bound, named
connection.py   one client's connection               answer.py      the answer to one request, given once
messages.py     request and response as values        problems.py    errors as RFC 9457 JSON
routes.py       from method and path to a handler     streams/       the Durable Streams protocol
registry/       the schema registry                   vitals.py      health and metrics
"""
