"""Bytes that are kept forever: what was ever written is read forever, only the newest spelling is written.

A new kind of entry is kept by running once with RUNNEL_GOLDEN=keep; what is kept is never written again. A field that
is appended to a struct gives entries that hold one another spelling: `name.2.bin` beside `name.bin`.
"""

import os
from pathlib import Path

from runnel.metadata.encoding import decode_entry, encode_entry

GOLDEN = Path(__file__).parents[1] / "golden" / "metadata"


def keep(path: Path, data: bytes) -> None:
    if os.environ.get("RUNNEL_GOLDEN") == "keep" and not path.exists():
        path.write_bytes(data)


def _spellings(stem: str, data: bytes) -> list[bytes]:
    """All bytes that an entry was ever written as."""
    paths = sorted(GOLDEN.glob(f"{stem}.bin")) + sorted(GOLDEN.glob(f"{stem}.*.bin"))
    if all(path.read_bytes() != data for path in paths):
        keep(GOLDEN / (f"{stem}.{len(paths) + 1}.bin" if paths else f"{stem}.bin"), data)
    return [path.read_bytes() for path in sorted(GOLDEN.glob(f"{stem}*.bin")) if path.name[len(stem)] == "."]


def assert_kept(stem: str, entry) -> None:
    """The entry is written as it was kept, and every spelling of it that was ever kept is read as this entry."""
    kept = _spellings(stem, encode_entry(entry))
    assert encode_entry(entry) in kept
    for data in kept:
        assert decode_entry(data, "golden") == entry
