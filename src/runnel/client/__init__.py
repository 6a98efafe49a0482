"""What Python programs use to talk to Runnel, or to any server of the same protocols.

streams.py          Durable Streams over HTTP: Stream and AsyncStream, Producer and AsyncProducer
streams_talk.py     what they say and how they take the answers: no I/O
streams_wire.py     one connection, waited for by a thread or by an event loop
"""
