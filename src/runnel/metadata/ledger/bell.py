"""Wakes the other processes of this machine when a shard has grown, without anybody polling.

Each process binds one Unix datagram socket in a directory beside the database. After a commit the committer sends every
socket in that directory a few bytes: which shards have grown. A bell is only a hint, so every loss is forgiven:

- a socket whose process died refuses; a bell that has refused twice is removed,
- a socket whose queue is full is about to be woken anyway; one that finds many datagrams at once wakes everybody,
- where there are no Unix sockets `can_hear` is False and the ledger polls faster.

On Linux the sockets are addressed through the directory's descriptor, since a socket's path may not exceed 107 bytes.
"""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

from runnel.model import ShardId
from runnel.world.chance import Chance

MANY = 8
"""Linux queues ten datagrams by default and turns away the rest: this many at once may mean that some were lost."""

SHARDS_NAMED_MAX = 64
"""More shards than this in one commit are not named; an empty message means all."""


class Bell:
    """One process's ear in the directory, and its hand on everybody else's."""

    def __init__(self, directory: Path, chance: Chance, woken: Callable[[Iterable[ShardId] | None], None]) -> None:
        """`woken` is called on the event loop with the shards that have grown, or None for any of them."""
        self._woken = woken
        self._name = f"{os.getpid()}-{chance.getrandbits(64):016x}.bell"
        self._refused: set[str] = set()
        self._hand: socket.socket | None = None
        self._ear: socket.socket | None = None
        self._directory: int | None = None
        with contextlib.suppress(OSError, AttributeError):
            directory.mkdir(mode=0o777, exist_ok=True)
            self._directory = os.open(directory, os.O_RDONLY)
            through = f"/proc/self/fd/{self._directory}"
            self._path = through if os.path.isdir(through) else str(directory)  # noqa: PTH112 -- a magic link, not a path
            self._hand = self._socket()
            self._ear = self._socket()
            self._ear.bind(f"{self._path}/{self._name}")
            (directory / self._name).chmod(0o777)  # like the database itself, guarded by the directory it lies in
            asyncio.get_running_loop().add_reader(self._ear.fileno(), self._hear)
            self.can_hear = True
            return
        self.can_hear = False
        self._release()

    @staticmethod
    def _socket() -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        made.setblocking(False)
        return made

    def ring(self, shards: Iterable[ShardId]) -> None:
        """Tell all others. Called on the thread that committed; never blocks, never fails."""
        if self._hand is None or self._directory is None:
            return
        named = list(shards)
        message = struct.pack(f">{len(named)}I", *named) if len(named) <= SHARDS_NAMED_MAX else b""
        with contextlib.suppress(OSError):
            for name in os.listdir(self._directory):  # noqa: PTH208 -- by descriptor, at half the cost
                if name != self._name and name.endswith(".bell"):
                    self._ring_one(name, message)

    def _ring_one(self, name: str, message: bytes) -> None:
        assert self._hand is not None
        try:
            self._hand.sendto(message, f"{self._path}/{name}")
        except ConnectionRefusedError:
            # A socket that is just being bound refuses once as well.
            if name in self._refused:
                self._refused.discard(name)
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=self._directory)
            else:
                self._refused.add(name)
        except OSError:
            pass  # a full queue (its owner is waking already), or gone since we looked

    def _hear(self) -> None:
        assert self._ear is not None
        grown: dict[ShardId, None] = {}
        heard = 0
        everybody = False
        with contextlib.suppress(OSError):
            while heard < 4 * MANY:
                message = self._ear.recv(4 * SHARDS_NAMED_MAX)
                heard += 1
                everybody |= not message or len(message) % 4 != 0
                grown |= dict.fromkeys(ShardId(n) for (n,) in struct.iter_unpack(">I", message[: len(message) & ~3]))
        self._woken(None if everybody or heard >= MANY else grown)

    def close(self) -> None:
        if self._ear is not None and self._directory is not None:
            asyncio.get_running_loop().remove_reader(self._ear.fileno())
            with contextlib.suppress(OSError):
                os.unlink(self._name, dir_fd=self._directory)
        self._release()

    def _release(self) -> None:
        for each in (self._ear, self._hand):
            if each is not None:
                each.close()
        if self._directory is not None:
            os.close(self._directory)
        self._ear = self._hand = self._directory = None
