r"""The format of a write-ahead object. Little-endian, except for the record batches, which are Kafka's.

    head      16  magic "RUNNELW\n", version, 6 bytes of zeros
    slices        for each stream, in order of stream ids, its sealed batches side by side; no gaps between slices
    footer        what lies where, in columns:
                      writer 8 (the node), slices 4, batches 4
                      per slice: streams 8, stamps 8, places 4, lengths 4, records 4, checksums 4, batch counts 4
                      per batch: lengths 4, records 4
    tail      32  object size 8, footer length 4, footer checksum 4, version 2, zeros 2, checksum of the tail so far 4,
                  magic "RUNNELW\n"

A *stamp* is the largest timestamp of a slice. All checksums are CRC-32C; a slice's is over all its bytes, so that one
ranged read of one slice can be checked alone. The footer's checksum covers those of the slices, the tail's covers the
footer's: nothing in an object can change unnoticed.

Everything needed to find the rest stands in the last 32 bytes; reading the last `TAIL_GUESS` bytes brings the whole
footer of an object with up to some 1,400 slices. Places are 32 bits, so an object is smaller than 4 GiB.

Readers know every version there ever was; only the newest is written.
"""

from struct import Struct

MAGIC = b"RUNNELW\n"
VERSION = 1

HEAD = Struct("<8sHxxxxxx")
FOOTER = Struct("<qII")
TAIL = Struct("<QIIHHI8s")
TAIL_CHECKED = 20  # bytes of the tail that its own checksum covers

HEAD_BYTES = HEAD.size
TAIL_BYTES = TAIL.size
TAIL_GUESS = 64 << 10
OBJECT_BYTES_MAX = (1 << 32) - 1

SLICE_BYTES = 36
BATCH_BYTES = 8

HEAD_NOW = HEAD.pack(MAGIC, VERSION)


def footer_bytes(slices: int, batches: int) -> int:
    """How long the footer of so many slices and batches is."""
    return FOOTER.size + slices * SLICE_BYTES + batches * BATCH_BYTES


def columns(slices: int, batches: int) -> Struct:
    """All columns of a footer, one behind the other."""
    return Struct(f"<{slices}Q{slices}q{5 * slices}I{2 * batches}I")
