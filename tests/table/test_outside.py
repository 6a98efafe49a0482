"""What others do to tables and catalogs: it is survived, or said, and never makes rows come twice."""

import os
import shutil
import sqlite3
from datetime import datetime

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.types import StringType
from tests.table.lake import Lake, produce
from tools.iceberg_rest import CACHE, RestCatalog

from runnel.engine.tables import EngineTruth
from runnel.errors import Uncertain
from runnel.table.status import Look

pytestmark = pytest.mark.leaves("pyiceberg keeps the threads of its pool")

REST = bool(os.environ.get("RUNNEL_TABLE_REST")) or (CACHE / ".done").exists()


class Scene:
    """A lake with one topic, 't', and what its tables say."""

    def __init__(self, folder, **options):
        self.lake = Lake(folder, **options)

    async def play(self, script):
        async with self.lake.engine() as engine:
            self.engine = engine
            self.topic = await engine.topics.create("t", 1, {"table.values": "raw"})
            async with self.lake.service(engine) as service:
                self.service = service
                await script(self)
        await self.lake.close()

    @property
    def table(self):
        return self.engine.root.tables[self.topic.id]

    async def more(self, count=10):
        """Produce and sync; what is in the way."""
        await produce(self.engine, "t", count)
        return (await self.service.sync()).round.trouble.get("t", "")

    async def status(self):
        truth = EngineTruth(self.engine)
        look = Look(truth, [self.lake.iceberg(), self.lake.delta(truth)])
        (status,) = (await look.status()).tables
        return status

    def offsets(self):
        """Of both tables, in order."""
        iceberg = sorted(self.lake.iceberg_rows("t", "offset")["offset"].to_pylist())
        delta = sorted(self.lake.delta_rows(self.table)["offset"].to_pylist())
        return iceberg, delta

    def has(self, count):
        return self.offsets() == (list(range(count)), list(range(count)))


@pytest.fixture
def scene(tmp_path, run):
    def play(script, **options):
        run(Scene(tmp_path, **options).play(script))

    return play


def test_an_iceberg_table_that_somebody_dropped_is_said_and_made_again(scene):
    async def script(on):
        await on.more()
        on.lake.catalog().drop_table(("runnel", "t"))
        assert "runnel table rebuild t" in (await on.status()).trouble[0]
        assert "runnel table rebuild t" in await on.more()
        assert len(on.lake.delta_rows(on.table)) == 20, "the other format goes on"
        assert (await on.service.rebuild("t")).trouble == {}
        assert await on.more() == ""
        assert on.has(30)
        assert (await on.status()).trouble == []

    scene(script)


def test_a_delta_log_that_somebody_removed_is_said_and_made_again(scene):
    async def script(on):
        await on.more()
        shutil.rmtree(on.lake.folder / "objects" / on.table.folder / "_delta_log")
        assert "runnel table rebuild t" in await on.more()
        assert (await on.service.rebuild("t")).trouble == {}
        assert on.has(20)

    scene(script)


def test_a_table_of_somebody_else_is_left_alone(scene):
    async def script(on):
        catalog = on.lake.catalog()
        catalog.create_namespace_if_not_exists(("runnel",))
        catalog.create_table(("runnel", "t"), pa.schema([("a", pa.int64())]))
        assert "belongs to something else" in await on.more()
        assert catalog.load_table(("runnel", "t")).schema().column_names == ["a"]
        catalog.drop_table(("runnel", "t"))
        assert await on.more() == ""
        assert on.has(20)

    scene(script)


def test_a_format_that_is_taken_out_is_not_waited_for_and_catches_up_when_it_comes_back(scene):
    async def script(on):
        await on.more()
        on.lake.catalog().drop_table(("runnel", "t"))
        assert await on.more() != ""
        topic = await on.engine.topics.alter(on.engine.topics.get("t"), {"table.formats": "delta"})
        assert await on.more() == ""
        await on.engine.topics.alter(topic, {"table.formats": "iceberg,delta"})
        await on.service.rebuild("t")
        assert await on.more() == ""
        assert on.has(40)

    scene(script)


def test_columns_and_rows_of_others_stay(scene):
    async def script(on):
        await on.more()
        table = on.lake.iceberg_table("t")
        with table.update_schema() as change:
            change.add_column("note", StringType())
        table.append(pa.table({"partition": pa.array([9], pa.int32()), "note": ["by hand"]}))
        write_deltalake(
            f"{on.lake.url}/{on.table.folder}",
            pa.table({"partition": pa.array([9], pa.int32()), "note": ["by hand"]}),
            mode="append",
            schema_mode="merge",
        )
        assert await on.more() == ""
        for rows in (on.lake.iceberg_rows("t"), on.lake.delta_rows(on.table)):
            assert sorted(rows.filter(pa.compute.is_valid(rows["offset"]))["offset"].to_pylist()) == list(range(20))
            assert rows["note"].to_pylist().count("by hand") == 1

    scene(script)


def test_maintenance_of_others_in_between_does_no_harm(scene):
    async def script(on):
        for _ in range(4):
            assert await on.more() == ""
        delta = on.lake.delta_table(on.table)
        delta.optimize.compact()
        delta.create_checkpoint()
        assert delta.vacuum(dry_run=False) == [], "the files are the stream's, too"
        table = on.lake.iceberg_table("t")
        table.maintenance.expire_snapshots().older_than(datetime(2100, 1, 1)).commit()  # noqa: DTZ001  as pyiceberg has it
        assert await on.more() == ""
        assert on.has(50)
        assert on.lake.iceberg_table("t").current_snapshot().summary["runnel.offsets"] == "0:50"

    scene(script)


def test_other_writers_that_come_in_between_are_waited_out(scene, monkeypatch):
    from runnel.table.catalogs import delta, iceberg

    async def script(on):
        await on.more()
        before = iceberg.Iceberg._append
        beats = iter(range(3))

        def beaten(self, table, target, manifest):
            if next(beats, None) is not None:
                other = on.lake.iceberg_table("t")
                with other.transaction() as change:
                    change.set_properties({"somebody": "else"})
                    with change.update_snapshot().fast_append():
                        pass
            before(self, table, target, manifest)

        after = delta.Delta._append
        delta_beats = iter(range(3))

        def delta_beaten(self, table, target, manifest):
            if next(delta_beats, None) is not None:
                on.lake.delta_table(on.table).alter.set_table_properties({"delta.appendOnly": "false"})
            after(self, table, target, manifest)

        monkeypatch.setattr(iceberg.Iceberg, "_append", beaten)
        monkeypatch.setattr(delta.Delta, "_append", delta_beaten)
        assert await on.more() == ""
        assert next(beats, None) is None
        assert on.has(20)

    scene(script)


def test_a_commit_whose_answer_is_lost_is_not_made_again(scene, monkeypatch):
    from runnel.table.catalogs import iceberg

    async def script(on):
        await on.more()
        before = iceberg.Iceberg._append

        def lost(self, table, target, manifest):
            before(self, table, target, manifest)
            monkeypatch.setattr(iceberg.Iceberg, "_append", before)
            raise Uncertain("no answer")

        monkeypatch.setattr(iceberg.Iceberg, "_append", lost)
        assert await on.more() == "", "the same sync goes round once more"
        assert on.has(20)
        assert on.table.pending is None
        assert len(on.lake.iceberg_table("t").snapshots()) == 2

    scene(script)


def test_a_catalog_that_is_locked_is_said_and_the_next_round_goes_on(scene):
    async def script(on):
        await on.more()
        file = on.lake.folder / "catalog.sqlite"
        file.rename(file.with_suffix(".away"))
        file.mkdir()
        why = await on.more()
        assert "cannot be reached" in why
        assert "see to the catalog" in why
        file.rmdir()
        file.with_suffix(".away").rename(file)
        assert (await on.service.sync()).round.trouble == {}
        assert on.has(20)
        with sqlite3.connect(file) as look:
            assert look.execute("select count(*) from iceberg_tables").fetchone() == (1,)
        look.close()

    scene(script)


def test_metadata_stays_small_however_many_commits_there_are(scene):
    async def script(on):
        for _ in range(30):
            assert await on.more(2) == ""
        table = on.lake.iceberg_table("t")
        manifests = table.current_snapshot().manifests(table.io)
        assert len(manifests) <= 25
        folder = on.lake.folder / "objects" / on.table.folder
        assert len(list((folder / "_iceberg").glob("*.metadata.json"))) <= 25
        assert on.has(60)
        later = on.engine.world.clock.now_ms() + 30 * 86_400_000
        iceberg = on.lake.iceberg()
        from runnel.table.catalogs.seam import Target

        iceberg.tidy(Target("t", on.table.id, on.table.folder, dict(on.table.facts)), later)
        table = on.lake.iceberg_table("t")
        assert len(table.snapshots()) == 1
        files = {each.name for each in (folder / "_iceberg").glob("*.avro")}
        assert len(files) <= 26, "what only expired snapshots had is gone"
        assert on.has(60)

    scene(script)


@pytest.mark.skipif(not REST, reason="Iceberg's REST server is fetched by `make table-e2e`")
def test_a_real_rest_catalog_and_what_happens_while_it_is_away(tmp_path, run):
    async def script(on):
        assert await on.more() == ""
        assert on.has(10)
        catalog.stop()
        why = await on.more()
        assert "cannot be reached" in why
        assert "see to the catalog" in why
        assert "see to the catalog" in (await on.status()).trouble[0]
        assert len(on.lake.delta_rows(on.table)) == 20, "the other format goes on"
        catalog.start()
        assert (await on.service.sync()).round.trouble == {}
        assert on.has(20)
        assert on.lake.iceberg_table("t").current_snapshot().summary["runnel.offsets"] == "0:20"
        schema = on.lake.iceberg_table("t").schema()
        assert schema.find_field("offset").field_id == 2, "field ids are those of the files"
        on.lake.catalog().drop_table(("runnel", "t"))
        assert "runnel table rebuild t" in await on.more()
        assert (await on.service.rebuild("t")).trouble == {}
        assert on.has(30)

    with RestCatalog(tmp_path / "rest") as catalog:
        here = Scene(tmp_path)
        here.lake.properties = {"type": "rest", "uri": catalog.uri}
        run(here.play(script))


def test_duckdb_reads_the_files_as_they_are(scene):
    async def script(on):
        await on.more(100)
        files = [each.file.file_path.removeprefix("file://") for each in on.lake.iceberg_table("t").scan().plan_files()]
        with duckdb.connect() as connection:
            found = connection.sql(f'select count(*), sum("offset") from read_parquet({files!r})').fetchone()
        assert found == (100, sum(range(100)))

    scene(script)
