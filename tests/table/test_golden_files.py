"""Groups of files as they were first written are read for ever; the columns that are written now are these."""

import asyncio
import base64
import json
from pathlib import Path

import pyarrow.parquet as pq

from runnel.table.files.columns import TableColumns
from runnel.table.files.facts import unpack_written
from runnel.table.files.restore import objects_of, read_letters, read_trail
from runnel.world.clock import SystemClock
from runnel.world.objects.memory import MemoryObjects

GOLDEN = Path(__file__).parent.parent / "golden" / "table" / "v1"


async def stored():
    store = MemoryObjects(SystemClock())
    for path in GOLDEN.iterdir():
        if path.suffix in {".parquet", ".trail", ".kept"}:
            await store.put_new(f"tables/orders/{path.name}", path.read_bytes())
    return store


def test_the_first_version_of_a_group_is_read():
    async def run():
        store = await stored()
        written = unpack_written((GOLDEN / "journal").read_bytes())
        (group,) = written.groups
        assert len(await objects_of(store, group.trail)) == len([each async for each in store.list("tables/")])
        reader = await read_trail(store, group.trail)
        batches = []
        for chunk in range(len(reader.trail.chunks)):
            batches += reader.restore(chunk, [await store.read(*each) for each in reader.ranges(chunk)])
        wanted = json.loads((GOLDEN / "batches.json").read_text())
        assert [[each.first, each.last, base64.b64encode(each.data).decode()] for each in batches] == wanted
        assert [(letter.offset, letter.why) async for letter in read_letters(store, group)] == [
            (1009, "the bytes end too early")
        ]
        assert sum(file.records for file in written.files) == written.records
        assert [file.partition for file in written.files] == [("de",), ("fr",)]

    asyncio.run(run())


def test_columns_of_a_table_have_these_types_and_ids():
    columns = TableColumns.of_json((GOLDEN / "columns.json").read_text())
    assert columns.arrow_schema().to_string(show_field_metadata=True) + "\n" == (GOLDEN / "schema.txt").read_text()
    by_name = {field.name: field for field in columns.arrow_schema(in_files=True)}
    for path in GOLDEN.glob("*.parquet"):
        for field in pq.read_schema(path):
            assert field.metadata[b"PARQUET:field_id"] == by_name[field.name].metadata[b"PARQUET:field_id"]
            assert field.type == by_name[field.name].type
