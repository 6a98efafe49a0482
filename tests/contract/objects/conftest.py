"""The implementations of ObjectStore that the contract suite runs against, each fresh and empty."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from tests.contract.objects.servers import S3Server, moto, seaweedfs

from runnel.world.chance import Chance
from runnel.world.clock import SystemClock
from runnel.world.objects.counting import CountingObjects
from runnel.world.objects.faulty import STORMY, FaultyObjects
from runnel.world.objects.files import FileObjects
from runnel.world.objects.latency import PROFILES, Curve, SlowedObjects
from runnel.world.objects.memory import MemoryObjects
from runnel.world.objects.open import open_store
from runnel.world.objects.seam import ObjectStore

Make = Callable[[Path], ObjectStore]

# Real distributions, a hundred times as fast.
_QUICK = replace(
    PROFILES["s3-express"],
    **{kind: Curve(middle_s=0.000_05, late_s=0.000_2) for kind in ("put", "get", "list", "delete")},
    put_bytes_per_s=1e10,
    get_bytes_per_s=1e10,
)

LOCAL: dict[str, Make] = {
    "memory": lambda _: MemoryObjects(SystemClock()),
    "files": lambda folder: FileObjects(folder / "objects", Chance(1)),
    "faulty-off": lambda _: FaultyObjects(MemoryObjects(SystemClock()), STORMY, Chance(1), on=False),
    "latency": lambda _: SlowedObjects(MemoryObjects(SystemClock()), _QUICK, Chance(1)),
    "counting": lambda folder: CountingObjects(FileObjects(folder / "objects", Chance(1))),
}
_CONNECTIONS = pytest.mark.leaves("obstore keeps its connections open for the next request")
SERVED = {
    "s3-seaweedfs": "seaweedfs_server",
    "s3-moto": "moto_server",
}


@pytest.fixture(scope="session")
def seaweedfs_server(tmp_path_factory) -> Iterator[S3Server]:
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs") / "server") as server:
        yield server


@pytest.fixture(scope="session")
def moto_server(tmp_path_factory) -> Iterator[S3Server]:
    with moto(tmp_path_factory.mktemp("moto") / "server") as server:
        yield server


@pytest.fixture(
    scope="session",
    params=[*LOCAL, *(pytest.param(name, marks=[_CONNECTIONS, pytest.mark.timeout(180)]) for name in SERVED)],
)
def make_store(request) -> Make:
    if request.param in LOCAL:
        return LOCAL[request.param]
    server = request.getfixturevalue(SERVED[request.param])
    turns = count()

    def make(_folder: Path) -> ObjectStore:
        # SeaweedFS sorts folder by folder, so that 'a/b' comes before 'a-b'.
        url = server.url(f"contract/{next(turns)}") + "&unordered=true" * (request.param == "s3-seaweedfs")
        return open_store(url, clock=SystemClock(), chance=Chance(), environ=server.environ)

    return make


@pytest.fixture
def store(make_store, tmp_path) -> Iterator[ObjectStore]:
    made = make_store(tmp_path)
    yield made
    asyncio.run(made.close())
