"""The write-ahead object: one immutable object that carries slices of many streams.

names     how objects are called, and the 16 bytes that say the same
layout    the format, byte by byte, and its version
builder   sealed batches to an object's buffers and the items of its ledger entry
reader    a footer and its slices, checked
opening   the footer of an object in a store, with one small read in the common case
inspect   an object told to a person
"""
