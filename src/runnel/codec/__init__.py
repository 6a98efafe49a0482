"""Bytes on the wire, read and written without any I/O.

framing, primitives, messages   Kafka requests and answers
batches                         sealed record batches: heads, checksums, offsets
records                         what is inside a batch, for people and our own small writers
compression, varints            what records are folded into
"""
