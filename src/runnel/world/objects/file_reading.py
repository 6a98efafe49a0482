"""Reading and listing a folder of objects. Runs in threads, except `read_cached`, which never waits for a disk.

A file or folder whose name no object can have (`~incoming`, `lost+found`, an editor's backup) is not seen at all.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from runnel.errors import NotThere, RunnelError
from runnel.model import ObjectName
from runnel.world.objects.file_writing import explain
from runnel.world.objects.names import is_part
from runnel.world.objects.ranges import Range, check_whole, stop_of
from runnel.world.objects.seam import Buffer, ObjectFacts

_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)  # Linux
_CALL_BYTES_MAX = 1 << 30


def read_cached(root: Path, name: ObjectName, ranges: Sequence[Range]) -> list[Buffer] | None:
    """The bytes if the operating system has them in memory, None for whatever asks for more than a copy."""
    if _NOWAIT is None:
        return None
    try:
        handle = os.open(root / name, os.O_RDONLY)
    except OSError:
        return None
    try:
        found: list[Buffer] = []
        for start, length in ranges:
            buffer = bytearray(length)
            if length == 0 or os.preadv(handle, [buffer], start, _NOWAIT) != length:
                return None
            found.append(buffer)
        return found
    except OSError:
        return None
    finally:
        os.close(handle)


def read_file(root: Path, name: ObjectName, start: int, length: int | None) -> Buffer:
    handle, size = _open(root, name)
    try:
        return _read(handle, name, start, stop_of(name, size, start, length))
    except OSError as error:
        raise explain(error, f"read {name!r}", root) from error
    finally:
        os.close(handle)


def read_file_ranges(root: Path, name: ObjectName, ranges: Sequence[Range]) -> list[Buffer]:
    handle, size = _open(root, name)
    try:
        return [_read(handle, name, start, stop_of(name, size, start, length)) for start, length in ranges]
    except OSError as error:
        raise explain(error, f"read {name!r}", root) from error
    finally:
        os.close(handle)


def file_facts(root: Path, name: ObjectName) -> ObjectFacts:
    try:
        found = (root / name).stat()
    except OSError as error:
        raise _not_opened(error, root, name) from None
    if not stat.S_ISREG(found.st_mode):
        raise _missing(name)
    return _facts(name, found)


def walk(root: Path, prefix: str, after: str) -> Iterator[ObjectFacts]:
    """Objects in order of names. Holds the names of one path of folders in memory, not those of the whole store."""
    folder = prefix.rpartition("/")[0]
    yield from _walk(root, f"{folder}/" if folder else "", prefix, after)


def _walk(root: Path, above: str, prefix: str, after: str) -> Iterator[ObjectFacts]:
    try:
        with os.scandir(root / above) as entries:
            # A folder sorts as its names do: with the slash that follows it.
            found = sorted(
                f"{above}{entry.name}/" if entry.is_dir() else f"{above}{entry.name}"
                for entry in entries
                if is_part(entry.name)
            )
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise explain(error, f"list {above or '/'!r}", root) from error
    for name in found:
        if name.endswith("/"):
            if (name > after or after.startswith(name)) and (name.startswith(prefix) or prefix.startswith(name)):
                yield from _walk(root, name, prefix, after)
        elif name > after and name.startswith(prefix):
            try:
                yield _facts(ObjectName(name), (root / name).stat())
            except FileNotFoundError:
                continue  # deleted since


def _open(root: Path, name: ObjectName) -> tuple[int, int]:
    try:
        handle = os.open(root / name, os.O_RDONLY)
    except OSError as error:
        raise _not_opened(error, root, name) from None
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise _missing(name)
    return handle, found.st_size


def _read(handle: int, name: ObjectName, start: int, stop: int) -> Buffer:
    if stop - start <= _CALL_BYTES_MAX:
        found: Buffer = os.pread(handle, stop - start, start)
    else:
        found = bytearray(stop - start)
        with memoryview(found) as view:
            at = 0
            while at < len(view) and (got := os.preadv(handle, [view[at : at + _CALL_BYTES_MAX]], start + at)):
                at += got
    check_whole(name, stop - start, len(found))
    return found


def _not_opened(error: OSError, root: Path, name: ObjectName) -> RunnelError:
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return _missing(name)
    return explain(error, f"read {name!r}", root)


def _missing(name: ObjectName) -> NotThere:
    return NotThere(f"object {name!r} is not there")


def _facts(name: ObjectName, found: os.stat_result) -> ObjectFacts:
    return ObjectFacts(name=name, size=found.st_size, modified_ms=found.st_mtime_ns // 1_000_000)
