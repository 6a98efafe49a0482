"""Bytes on the wire, read and written without any I/O.

wire                            from a frame to a message, from a message to buffers: the front door
framing, apis, errors           frames and headers; which APIs and versions there are; error codes
declare, messages/              Kafka requests and answers, declared as data
shapes, decoding, encoding      what turns a declaration into a decoder and an encoder
primitives                      varints, tagged fields, topic ids
batches                         sealed record batches: heads, checksums, offsets
records                         what is inside a batch, for people and our own small writers
compression, varints            what records are folded into
"""
