"""Memory that Python gives back is used again, and a start without glibc goes on as it is."""

import subprocess
import sys

CODE = """
import ctypes, resource
from runnel.world import allocator
{before}
print(allocator.keep_memory_together())
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def answers():
    for _ in range(20):
        bytearray(8 << 20)
answers()
begun = faults()
answers()
print(faults() - begun)
"""


def told(before=""):
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(before=before)], capture_output=True, text=True, check=True
    )
    asked, faults = done.stdout.split()
    return asked == "True", int(faults)


def test_large_buffers_are_not_paid_for_page_by_page_every_time():
    pages = 20 * (8 << 20) // 4096
    asked, faults = told()
    assert asked
    assert faults < pages / 10
    asked, _ = told("allocator.ctypes = type('none', (), {'CDLL': staticmethod(lambda _: object())})")
    assert not asked
