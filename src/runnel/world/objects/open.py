"""Opening a store by its address, and checking at start that it can be used."""

import os
from collections.abc import Mapping
from pathlib import Path

from runnel.errors import Refused
from runnel.world.chance import Chance
from runnel.world.clock import Clock
from runnel.world.objects.address import Address, parse_address
from runnel.world.objects.latency import SlowedObjects, profile
from runnel.world.objects.memory import BYTES_MAX, MemoryObjects
from runnel.world.objects.seam import ObjectStore


def open_store(url: str, *, clock: Clock, chance: Chance, environ: Mapping[str, str] = os.environ) -> ObjectStore:
    """The store at an address. It may still be out of reach: `check_store` finds out."""
    address = parse_address(url)
    slow = profile(address.options.get("latency", "none"))
    store = _open(address, clock, chance, environ)
    return store if slow is None else SlowedObjects(store, slow, chance.fork("latency"))


async def check_store(store: ObjectStore) -> None:
    """Raise one clear line with the next step if a store cannot be used; to be called once, at start.

    Memory and files are checked by opening them.
    """
    while (inner := getattr(store, "inner", None)) is not None:
        store = inner
    check = getattr(store, "check", None)
    if check is not None:
        await check()


def _open(address: Address, clock: Clock, chance: Chance, environ: Mapping[str, str]) -> ObjectStore:
    # Late imports: who keeps objects in memory needs neither threads nor obstore.
    if address.scheme == "memory":
        return MemoryObjects(clock, bytes_max=_bytes_max(address))
    if address.scheme == "file":
        from runnel.world.objects.files import FileObjects  # noqa: PLC0415

        return FileObjects(Path(address.path), chance.fork("files"))
    from runnel.world.objects.bucket import open_bucket  # noqa: PLC0415

    return open_bucket(address, chance.fork("bucket"), environ)


def _bytes_max(address: Address) -> int:
    text = address.options.get("bytes_max", str(BYTES_MAX))
    if not (text.isascii() and text.isdigit()):
        raise Refused(f"option bytes_max={text!r} of the memory store is not a number of bytes")
    return int(text)
