"""Spark does the work: in this machine's own session always, on a cluster of two workers when asked (make table-cluster)."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import psutil
import pytest
from tests.table.lake import Lake, produce

from runnel.table.forks import leave_archives
from runnel.table.plan import Bounds

pytest.importorskip("pyspark")
from runnel.table.job import SparkSettings, SparkWorkers

pytestmark = [
    pytest.mark.leaves("pyiceberg keeps the threads of its pool, PySpark its connections"),
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
CLUSTER = bool(os.environ.get("RUNNEL_TABLE_CLUSTER"))


def workers_of(lake, master, **more):
    settings = SparkSettings(master=master, folder=lake.folder / "spark", memory_bytes=512 << 20, **more)
    return SparkWorkers(settings, lake.url, lambda: lake.schemas)


async def many(engine, count, each=2000):
    await engine.topics.create("t", 2)
    for number in range(count):
        await produce(engine, "t", each, partition=number % 2, first=number // 2 * each)


def same_as_streams(lake, engine, count):
    rows = lake.iceberg_rows("t", "partition", "offset", "value")
    assert rows.num_rows == lake.delta_rows(next(iter(engine.root.tables.values()))).num_rows == count
    found = sorted(
        zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), rows["value"].to_pylist(), strict=True)
    )
    assert found == [(p, n, b"%020d" % n) for p in range(2) for n in range(count // 2)]


def test_python_workers_have_what_they_need_and_import_from_no_archive(tmp_path, run):
    def look(_):
        import sys

        archives = [each for each in sys.path_importer_cache if ".zip" in each or ".jar" in each]
        return archives, sys.modules["pyspark"].__file__, "pyarrow.parquet" in sys.modules

    async def scenario():
        lake = Lake(tmp_path)
        workers = workers_of(lake, "local[1]")
        try:
            context = await workers.start()
            seen = await asyncio.to_thread(lambda: context.parallelize([0], 1).map(look).collect())
        finally:
            await workers.close()
            await lake.close()
        assert seen == [([], find_spec("pyspark").origin, True)]

    run(scenario())


@pytest.mark.parametrize("inside", ["0.1", version("pyspark")])
def test_archives_of_another_pyspark_than_the_installed_one_stay(tmp_path, monkeypatch, inside):
    archive = tmp_path / "pyspark.zip"
    with ZipFile(archive, "w") as made:
        made.writestr("pyspark/version.py", f'__version__: str = "{inside}"\n')
    before = [str(archive), str(tmp_path / "py4j.zip"), *sys.path]
    monkeypatch.setattr(sys, "path", list(before))
    leave_archives()
    assert sys.path == (before if inside == "0.1" else [each for each in before if not each.endswith(".zip")])


def test_a_session_of_this_machine_does_the_work_and_writes_its_log_to_a_file(tmp_path, run, capfd):
    async def scenario():
        lake = Lake(tmp_path, bounds=Bounds(task_bytes=60_000))
        async with lake.engine() as engine:
            await many(engine, 4)
            async with lake.service(engine, workers=workers_of(lake, "local[2]")) as service:
                first = await service.sync()
                assert (first.round.trouble, first.round.tasks > 1) == ({}, True)
                await produce(engine, "t", 2000, partition=0, first=4000)
                await produce(engine, "t", 2000, partition=1, first=4000)
                assert (await service.sync()).round.trouble == {}
            same_as_streams(lake, engine, 12_000)
        await lake.close()
        assert (tmp_path / "spark" / "spark.log").exists()

    run(scenario())
    assert "WARN" not in capfd.readouterr().err


@pytest.mark.skipif(not CLUSTER, reason="Spark waits for a minute: make table-cluster")
def test_a_master_that_is_not_there_is_said(tmp_path, run):
    async def scenario():
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        lake = Lake(tmp_path)
        quick = {"spark.cores.max": "1", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        workers = workers_of(lake, f"spark://127.0.0.1:{port}", conf=quick)
        async with lake.engine() as engine:
            await many(engine, 1)
            async with lake.service(engine, workers=workers) as service:
                why = (await service.sync()).round.trouble["t"]
                assert f"Spark at spark://127.0.0.1:{port}" in why
                assert "spark.log" in why
        await lake.close()

    run(scenario())


# --- a cluster


@contextmanager
def cluster(folder, workers=2):
    """A standalone master and its workers on loopback; gives its address and the processes of the workers."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environ = os.environ | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
    environ |= {"SPARK_WORKER_DIR": str(folder / "work"), "PYSPARK_PYTHON": sys.executable}
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    base = [str(home / "bin" / "spark-class")]
    heap = ["--host", "127.0.0.1", "--webui-port", "0"]
    started = []
    with (folder / "cluster.log").open("ab") as log:
        words = [*base, "org.apache.spark.deploy.master.Master", "--port", str(port), *heap]
        started.append(subprocess.Popen(words, env=environ, stdout=log, stderr=log))
        wait_for(lambda: is_open(port))
        for _ in range(workers):
            words = [*base, "org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g", *heap, address]
            started.append(subprocess.Popen(words, env=environ, stdout=log, stderr=log))
        wait_for(lambda: (folder / "cluster.log").read_text().count("Registering worker") >= workers)
        try:
            yield address, started[1:]
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait(30)


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(what, seconds=90):
    until = time.monotonic() + seconds  # noqa: TID251  other processes go by no clock of ours
    while not what():
        assert time.monotonic() < until, "not in time"  # noqa: TID251  as above
        time.sleep(0.2)


ON_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@pytest.mark.skipif(not CLUSTER, reason="slow: make table-cluster")
def test_two_workers_share_the_work_and_one_may_die(tmp_path, run):
    async def scenario(address, nodes):
        lake = Lake(tmp_path, bounds=Bounds(task_bytes=60_000))
        async with lake.engine() as engine:
            await many(engine, 24)
            workers = workers_of(lake, address, conf=ON_LOOPBACK)
            async with lake.service(engine, workers=workers) as service:
                first = await service.sync()
                assert first.round.trouble == {}
                assert first.round.tasks >= 12
                same_as_streams(lake, engine, 48_000)
                folders = {each.parent.name for each in (tmp_path / "work").glob("app-*/*/stderr")}
                assert len(folders) == 2, "both workers had an executor"
                for number in range(24):
                    await produce(engine, "t", 2000, partition=number % 2, first=24_000 + number // 2 * 2000)
                syncing = asyncio.gather(service.sync())
                await asyncio.sleep(0.5)
                victims = psutil.Process(nodes[0].pid).children(recursive=True)
                for victim in victims:
                    victim.send_signal(signal.SIGKILL)
                (second,) = await syncing
                assert second.round.trouble == {}
                same_as_streams(lake, engine, 96_000)
        await lake.close()

    with cluster(tmp_path) as (address, nodes):
        run(scenario(address, nodes))
