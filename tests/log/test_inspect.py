"""Objects in a store: opened with few reads, and told to a person."""

import json

import pytest

from runnel.codec.records import Record, build_batch
from runnel.errors import Corrupt, NotThere
from runnel.log.builder import Sealed, lay_out
from runnel.log.inspect import inspect_object
from runnel.log.names import wal_name
from runnel.log.opening import read_footer, read_slice
from runnel.log.reader import check_object

NAME = wal_name(1_700_000_000_000, 255)


class Store:
    """As much of a store as reading takes, counting what is asked."""

    def __init__(self, objects):
        self.objects = objects
        self.asked = []

    async def facts(self, name):
        if name not in self.objects:
            raise NotThere(f"object {name} does not exist")
        self.asked.append("facts")
        return type("Facts", (), {"size": len(self.objects[name])})

    async def read(self, name, start=0, length=None):
        if name not in self.objects:
            raise NotThere(f"object {name} does not exist")
        data = self.objects[name]
        length = len(data) - start if length is None else length
        assert 0 <= start <= start + length <= len(data), "a range over the end"
        self.asked.append((start, length))
        return data[start : start + length]


def sealed(stream, count=2, **more):
    body = build_batch([Record(b"key", b"value", (), 1_700_000_000_000)] * count, **more)
    return Sealed(stream, body, count, 1_700_000_000_000, **more)


def object_of(streams):
    return b"".join(lay_out([sealed(stream) for stream in range(streams)], writer=3).buffers)


def test_a_footer_takes_one_read_when_the_size_is_known(run):
    data = object_of(500)
    store = Store({NAME: data})
    footer = run(read_footer(store, NAME, len(data)))
    assert footer == check_object(NAME, data)
    assert len(store.asked) == 1


@pytest.mark.parametrize("streams", [1, 5, 3000])
def test_large_and_small_footers_are_read_right(run, streams):
    data = object_of(streams)
    store = Store({NAME: data})
    assert run(read_footer(store, NAME)) == check_object(NAME, data)
    assert len(store.asked) == (2 if streams < 3000 else 3)


def test_a_slice_is_read_by_range_and_checked(run):
    data = bytearray(object_of(5))
    store = Store({NAME: data})
    footer = run(read_footer(store, NAME))
    wanted = footer.slice_of(3)
    assert run(read_slice(store, footer, wanted)) == data[wanted.place : wanted.place + wanted.length]
    data[wanted.place + 30] ^= 1
    with pytest.raises(Corrupt, match="stream 3"):
        run(read_slice(store, footer, wanted))


def test_a_person_reads_what_is_inside(run):
    text = run(inspect_object(Store({NAME: object_of(2)}), NAME))
    first, second, _, head, *rows = text.splitlines()
    assert first.startswith(f"{NAME}: format 1, ")
    assert first.endswith("written 2023-11-14T22:13:20.000Z by node 3")
    assert second == "4 records in 2 batches of 2 streams, checked: footer"
    assert head.split()[:3] == ["stream", "position", "bytes"]
    assert [row.split()[0] for row in rows] == ["0", "1"]


def test_a_long_list_is_cut_and_says_so(run):
    assert run(inspect_object(Store({NAME: object_of(60)}), NAME)).endswith("… and 10 more; --json shows all")


def test_a_program_reads_all_of_it(run):
    data = b"".join(lay_out([sealed(8, producer=5, epoch=1, sequence=7), sealed(9, 3)]).buffers)
    facts = json.loads(run(inspect_object(Store({NAME: data}), NAME, as_json=True, whole=True)))
    assert facts["writer"] is None
    assert facts["checked"] == "every byte"
    assert (facts["streams"], facts["batches"], facts["records"]) == (2, 2, 5)
    batch = facts["slices"][0]["batches"][0]
    assert (batch["producer"], batch["epoch"], batch["sequence"], batch["compression"]) == (5, 1, 7, "none")
    assert "producer" not in facts["slices"][1]["batches"][0]


def test_a_copy_under_another_name_and_odd_times_are_told_too(run):
    body = build_batch([Record(None, b"", (), 2**60)])
    data = b"".join(lay_out([Sealed(1, body, 1, 2**60), Sealed(2, body, 1, -1)]).buffers)
    text = run(inspect_object(Store({"copy.bin": data}), "copy.bin"))
    assert f"{2**60} ms" in text
    assert text.splitlines()[0] == f"copy.bin: format 1, {len(data)} bytes"


def test_damage_is_found_by_a_whole_look_and_a_missing_object_is_said_to_be_missing(run):
    data = bytearray(object_of(3))
    data[100] ^= 1
    with pytest.raises(Corrupt, match=f"{NAME} fails the checksum of stream 0 at byte 16"):
        run(inspect_object(Store({NAME: data}), NAME, whole=True))
    with pytest.raises(NotThere):
        run(inspect_object(Store({}), NAME))
