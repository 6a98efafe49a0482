"""How an object gets onto a disk so that it is there whole or not at all. Runs in threads; knows no event loop.

    ~incoming/<process>/<n>   written and fdatasync'ed under a name that no object can have
    link()                    the object's name appears, with all its bytes, and only if nobody had it
    fsync(folder)             the name itself survives a power cut; racers for one folder share one call
    unlink()                  the first name goes

`link` is what makes a name write-once: unlike `rename` it fails when the name is taken, on every POSIX file system.
Each process writes into an incoming folder of its own and keeps a lock on it. The lock goes with the process, however
it ends; who opens the store next removes every incoming folder that nobody holds.

Large bodies that lie at a page in memory go to the disk past the page cache (O_DIRECT): filling fresh pages of that cache
costs more processor time than everything else on an object's way, and what was just written is in our own cache anyway.

Folders are held open: `link` into a folder that another process just removed as empty then fails loudly, instead of
landing in a new folder of the same name that nobody has made durable.
"""

import ctypes
import errno
import fcntl
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from runnel.errors import AlreadyThere, Overloaded, Refused, RunnelError, Unavailable, Uncertain
from runnel.model import ObjectName
from runnel.world.chance import Chance
from runnel.world.objects.seam import Buffer

INCOMING = "~incoming"
FOLDERS_HELD_MAX = 256
_BUFFERS_A_CALL = 1024  # IOV_MAX on Linux and macOS
_LINK_TRIES = 8
O_DIRECT = getattr(os, "O_DIRECT", 0)
PAST_CACHE_FROM = 128 * 1024
PAGE = 4096
_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_HANDLES = {errno.EMFILE, errno.ENFILE}


def explain(error: OSError, doing: str, root: Path) -> RunnelError:
    """What an error of the file system means for whoever asked."""
    if error.errno in _FULL:
        return Unavailable(f"no space left in '{root}' to {doing}; free some or move the store")
    if error.errno in _FORBIDDEN:
        return Refused(f"may not {doing} in '{root}' ({error.strerror}); give this user the right to write there")
    if error.errno in _NO_HANDLES:
        return Overloaded(f"too many open files to {doing} in '{root}'; raise the limit with ulimit -n")
    return Unavailable(f"could not {doing} in '{root}': {error.strerror}")


class Folder:
    """An open folder; concurrent calls of `sync` are served by as few calls of fsync as can be."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self._counting = threading.Lock()
        self._turn = threading.Lock()
        self._asked = 0
        self._synced = 0

    def __del__(self) -> None:
        os.close(self.handle)

    def sync(self) -> None:
        """Return after an fsync that began after this call."""
        with self._counting:
            self._asked += 1
            mine = self._asked
        with self._turn:
            if self._synced >= mine:
                return
            with self._counting:
                upto = self._asked
            os.fsync(self.handle)
            self._synced = upto


class Folders:
    """The folders of a store, made and held open on demand, the most recently used ones kept."""

    def __init__(self, root: Path) -> None:
        self._lock = threading.RLock()
        self._held: OrderedDict[str, Folder] = OrderedDict()
        self._root = Folder(os.open(root, os.O_RDONLY | os.O_DIRECTORY))

    def hold(self, path: str) -> Folder:
        """The folder at a path, durable itself."""
        if not path:
            return self._root
        with self._lock:
            held = self._held.get(path)
            if held is None:
                held = self._held[path] = self._open(path)
                if len(self._held) > FOLDERS_HELD_MAX:
                    self._held.popitem(last=False)
            self._held.move_to_end(path)
            return held

    def forget(self, path: str) -> None:
        """The folder was removed; so may those above it have been."""
        with self._lock:
            while path:
                self._held.pop(path, None)
                path = path.rpartition("/")[0]

    def close(self) -> None:
        with self._lock:
            self._held.clear()
            del self._root

    def _open(self, path: str) -> Folder:
        above, _, own = path.rpartition("/")
        parent = self.hold(above)
        with suppress(FileExistsError):
            os.mkdir(own, dir_fd=parent.handle)
        handle = os.open(own, os.O_RDONLY | os.O_DIRECTORY, dir_fd=parent.handle)
        # Also when another process made it: it may not have come to this line yet.
        parent.sync()
        return Folder(handle)


class Job:
    """One put on its way through a thread; its caller may give it up as long as it is not published."""

    abandoned = False


class FileWriter:
    """Writes objects below a root, from any number of threads."""

    def __init__(self, root: Path, chance: Chance) -> None:
        self.root = root
        self.folders = Folders(root)
        self._numbers = count()
        self._broken: str | None = None
        self._past_cache = bool(O_DIRECT)
        """Whether this file system can write past the page cache, as far as is known."""
        _sweep(root / INCOMING)
        self._incoming, self._lock = _own_incoming(root / INCOMING, chance)

    def put_new(self, name: ObjectName, buffers: Sequence[Buffer], job: Job) -> None:
        if self._broken is not None:
            raise Unavailable(self._broken)
        temporary = self._incoming / str(next(self._numbers))
        try:
            self._write(temporary, buffers)
            if not job.abandoned:
                self._publish(temporary, name)
        except OSError as error:
            raise explain(error, f"write {name!r}", self.root) from error
        finally:
            # Should this fail too, the next one who opens the store removes it.
            with suppress(OSError):
                temporary.unlink()

    def delete(self, names: Sequence[ObjectName]) -> None:
        touched: set[str] = set()
        try:
            for name in names:
                # A folder is no object, and neither is what lies below an object.
                with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                    (self.root / name).unlink()
                    touched.add(name.rpartition("/")[0])
            for path in touched:
                if not self._prune(path):
                    with suppress(FileNotFoundError):
                        self.folders.hold(path).sync()
        except OSError as error:
            if touched:
                raise Uncertain(
                    f"deleted only some of {len(names)} objects: {error.strerror}; delete them again"
                ) from error
            raise explain(error, f"delete {names[0]!r}", self.root) from error

    def close(self) -> None:
        self.folders.close()
        with suppress(OSError):
            self._incoming.rmdir()
        os.close(self._lock)

    def _write(self, path: Path, buffers: Sequence[Buffer]) -> None:
        past_cache = self._past_cache and lies_at_a_page(buffers)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            handle = os.open(path, flags | O_DIRECT if past_cache else flags, 0o644)
        except OSError as error:
            if not past_cache or error.errno != errno.EINVAL:
                raise
            self._past_cache = past_cache = False
            with suppress(FileNotFoundError):
                path.unlink()  # some file systems make the file before they look at the flags
            handle = os.open(path, flags, 0o644)
        try:
            if past_cache:
                self._write_past_cache(handle, memoryview(buffers[0]))
            else:
                write_all(handle, buffers)
            os.fdatasync(handle)
        finally:
            os.close(handle)

    def _write_past_cache(self, handle: int, body: memoryview) -> None:
        """Whole pages first; what is left of the last one goes the usual way, as does everything on an odd disk."""
        at, whole = 0, len(body) // PAGE * PAGE
        try:
            while at < whole and at % PAGE == 0:
                at += os.write(handle, body[at:whole])
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            self._past_cache = False
        if at < len(body):
            fcntl.fcntl(handle, fcntl.F_SETFL, fcntl.fcntl(handle, fcntl.F_GETFL) & ~O_DIRECT)
            write_all(handle, [body[at:]])

    def _publish(self, temporary: Path, name: ObjectName) -> None:
        path, _, own = name.rpartition("/")
        for _ in range(_LINK_TRIES):
            try:
                folder = self.folders.hold(path)
                os.link(temporary, own, dst_dir_fd=folder.handle)
            except FileNotFoundError:
                self.folders.forget(path)  # removed as empty by another process; made again by the next turn
                continue
            except NotADirectoryError:
                raise Refused(f"object {name!r} cannot be: a part of its path is an object") from None
            except FileExistsError:
                if (self.root / name).is_dir():
                    raise Refused(f"object {name!r} cannot be: there are objects in a folder of this name") from None
                # Whoever hears AlreadyThere may take the object for granted, so it has to be durable by now.
                self._sync(folder, name)
                raise AlreadyThere(f"object {name!r} is already there") from None
            self._sync(folder, name)
            return
        raise Unavailable(f"the folder of {name!r} in '{self.root}' is removed again and again; try again")

    def _sync(self, folder: Folder, name: ObjectName) -> None:
        try:
            folder.sync()
        except OSError as error:
            # After a failed fsync the kernel may drop what it could not write and report success the next time.
            self._broken = (
                f"the disk under '{self.root}' failed to keep a write ({error.strerror}); check it, then restart"
            )
            raise Uncertain(f"object {name!r} may be lost by a power cut: {error.strerror}") from error

    def _prune(self, path: str) -> bool:
        """Remove a folder that became empty, and those above it. False when it is in use."""
        pruned = False
        while path:
            try:
                (self.root / path).rmdir()
            except OSError:
                break
            self.folders.forget(path)
            pruned = True
            path = path.rpartition("/")[0]
        return pruned


def lies_at_a_page(buffers: Sequence[Buffer]) -> bool:
    """Whether this is one large buffer that a disk can take from where it lies."""
    if len(buffers) != 1 or len(buffers[0]) < PAST_CACHE_FROM:
        return False
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(buffers[0])) % PAGE == 0
    except TypeError:
        return False  # read-only memory does not say where it is


def write_all(handle: int, buffers: Sequence[Buffer]) -> None:
    """All bytes of all buffers, in as few calls as can be, none of them copied."""
    views = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
    at = 0
    while at < len(views):
        wrote = os.writev(handle, views[at : at + _BUFFERS_A_CALL])
        while at < len(views) and wrote >= views[at].nbytes:
            wrote -= views[at].nbytes
            at += 1
        if wrote:
            views[at] = views[at][wrote:]


def _own_incoming(incoming: Path, chance: Chance) -> tuple[Path, int]:
    """A new incoming folder of this process, and the handle that locks it."""
    while True:
        path = incoming / f"{chance.getrandbits(64):016x}"
        handle = None
        try:
            path.mkdir(parents=True)
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle).st_nlink and path.exists():
                return path, handle
        except (FileExistsError, FileNotFoundError, BlockingIOError):
            pass  # another process has this name, or swept it between making and locking
        if handle is not None:
            os.close(handle)


def _sweep(incoming: Path) -> None:
    """Remove what processes left behind that are no more."""
    with suppress(FileNotFoundError):
        for path in incoming.iterdir():
            with suppress(OSError):
                handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    for leftover in path.iterdir():
                        leftover.unlink()
                    path.rmdir()
                finally:
                    os.close(handle)
