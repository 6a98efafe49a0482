"""How the C library keeps memory that Python gives back: asked once, before there are threads. Only glibc is asked.

By default glibc maps every large buffer anew and unmaps it when it is freed, so that an answer of some MB is paid for
page by page, every time; and it gives each thread a heap of its own, which keeps what that thread once needed. One heap
that keeps a little serves a node better: catching up costs half the processor time, and less memory stays behind.
"""

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # malloc.h
KEPT_BYTES = 32 << 20


def keep_memory_together() -> bool:
    """Whether the C library could be asked."""
    with suppress(OSError, AttributeError):
        ask = ctypes.CDLL(None).mallopt
        return all([ask(_ARENA_MAX, 1), ask(_MMAP_THRESHOLD, KEPT_BYTES), ask(_TRIM_THRESHOLD, KEPT_BYTES)])
    return False
