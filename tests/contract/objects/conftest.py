"""The implementations of ObjectStore that the contract suite runs against, each fresh and empty."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from runnel.world.chance import Chance
from runnel.world.clock import SystemClock
from runnel.world.objects.faulty import STORMY, FaultyObjects
from runnel.world.objects.files import FileObjects
from runnel.world.objects.memory import MemoryObjects
from runnel.world.objects.seam import ObjectStore

MAKERS: dict[str, Callable[[pytest.FixtureRequest], ObjectStore]] = {
    "memory": lambda _: MemoryObjects(SystemClock()),
    "files": lambda request: FileObjects(request.getfixturevalue("tmp_path") / "objects", Chance(1)),
    "faulty-off": lambda _: FaultyObjects(MemoryObjects(SystemClock()), STORMY, Chance(1), on=False),
}


@pytest.fixture(params=MAKERS)
def store(request) -> Iterator[ObjectStore]:
    made = MAKERS[request.param](request)
    yield made
    asyncio.run(made.close())
