"""Sealed batches to columns and back: with both splitters, with every compression, against a client's own code."""

import random  # noqa: TID251  # a fixed seed
from array import array

import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from runnel.codec.batches import read_head
from runnel.codec.compression import Compression
from runnel.errors import Corrupt
from runnel.table import compiled, records_plain
from runnel.table.batches import seal_rows, with_aside
from runnel.table.records import ABORTED, CONTROL_BATCH, HEADERS, ROWS, Run, Stretch, open_runs

optional_bytes = st.none() | st.binary(max_size=40)
records = st.lists(
    st.fixed_dictionaries(
        {
            "gap": st.integers(0, 3),
            "time": st.integers(-1, 2**53),
            "key": optional_bytes,
            "value": optional_bytes | st.binary(min_size=200, max_size=300),
            "headers": st.lists(
                st.fixed_dictionaries({"key": st.text(max_size=5), "value": optional_bytes}), max_size=3
            ),
        }
    ),
    min_size=1,
    max_size=30,
)


def as_rows(items, first=7):
    offset = first - 1
    rows = []
    for item in items:
        offset += 1 + item.get("gap", 0)
        rows.append({"offset": offset, **{name: item[name] for name in ("time", "key", "value", "headers")}})
    return pa.RecordBatch.from_pylist(rows, schema=ROWS)


def both_ways(monkeypatch):
    return [compiled.helper, None] if compiled.helper else [None]


def made_by_a_client(rows, *, base=0, codec=0, transactional=False, producer=-1):
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=transactional,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=0 if producer >= 0 else -1,
        batch_size=1 << 30,
    )
    for n, row in enumerate(rows):
        builder.append(n, row["time"], row["key"], row["value"], [(h["key"], h["value"]) for h in row["headers"]])
    batch = bytearray(builder.build())
    batch[0:8] = base.to_bytes(8, "big")
    return bytes(batch)


def opened(runs, **how):
    pieces = list(open_runs(runs, **how))
    rows = pa.Table.from_batches([piece.rows for piece in pieces], schema=ROWS).to_pylist()
    return rows, [s for p in pieces for s in p.stretches], [a for p in pieces for a in p.aside]


@given(items=records, bytes_max=st.integers(1, 2000), codec=st.sampled_from(Compression))
def test_rows_sealed_and_opened_again_are_the_same_rows(items, bytes_max, codec):
    rows = as_rows(items)
    results = []
    for helper in {id(h): h for h in (compiled.helper, None)}.values():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compiled, "helper", helper)
            batches = seal_rows(rows, [], compression=codec, batch_bytes_max=bytes_max)
            back = [row for batch in batches for row in opened([Run(batch.first, batch.data)])[0]]
        assert back == rows.to_pylist()
        results.append([batch.data for batch in batches])
    assert all(result == results[0] for result in results)
    for batch in batches:
        head = read_head(memoryview(batch.data))
        assert (head.base_offset, head.next_offset - 1) == (batch.first, batch.last)


@given(items=records, codec=st.sampled_from([0, 1, 2, 3, 4]))
def test_what_a_client_wrote_comes_out_with_the_real_offsets(items, codec):
    # this client takes -1 for "not given"
    wanted = [{k: v for k, v in item.items() if k != "gap"} | {"time": max(0, item["time"])} for item in items]
    sealed = made_by_a_client(wanted, codec=codec)
    rows, stretches, aside = opened([Run(1000, sealed + sealed)])
    assert rows == [{"offset": 1000 + n, **row} for n, row in enumerate(wanted * 2)]
    assert stretches == [Stretch(1000, 1000 + 2 * len(items) - 1)]
    assert aside == []


@given(items=records, codec=st.sampled_from(Compression))
def test_a_client_reads_the_batches_that_are_made_again(items, codec):
    rows = as_rows(items)
    back = []
    for batch in seal_rows(rows, [], compression=codec):
        reader = DefaultRecordBatch(batch.data)
        assert reader.validate_crc()
        back += [(r.offset, r.timestamp, r.key, r.value, [tuple(h) for h in r.headers]) for r in reader]
    assert back == [
        (r["offset"], r["time"], r["key"], r["value"], [(h["key"], h["value"]) for h in r["headers"]])
        for r in rows.to_pylist()
    ]


def plain_row(n):
    return {"time": 1_700_000_000_000 + n, "key": None, "value": b"v%d" % n, "headers": []}


def test_transactions_keep_their_producer_and_never_share_a_batch():
    data = b"".join(
        [
            made_by_a_client([plain_row(0), plain_row(1)]),
            made_by_a_client([plain_row(2)], transactional=True, producer=5),
            made_by_a_client([plain_row(3)], transactional=True, producer=5),
            made_by_a_client([plain_row(4)], transactional=True, producer=6),
        ]
    )
    (piece,) = open_runs([Run(0, data)])
    assert [(s.first, s.last, s.producer) for s in piece.stretches] == [(0, 1, -1), (2, 3, 5), (4, 4, 6)]
    heads = [read_head(memoryview(batch.data)) for batch in seal_rows(piece.rows, piece.stretches)]
    assert [(h.base_offset, h.records, h.producer, h.is_transactional) for h in heads] == [
        (0, 2, -1, False),
        (2, 2, 5, True),
        (4, 1, 6, True),
    ]


def test_control_aborted_and_poisoned_batches_stay_sealed_and_find_their_place_again():
    good = made_by_a_client([plain_row(0), plain_row(1)])
    aborted = made_by_a_client([plain_row(2)], transactional=True, producer=9)
    control = bytearray(made_by_a_client([plain_row(3)]))
    control[22] |= 0x20
    broken = bytearray(good)
    broken[-1] ^= 1
    runs = [Run(10, good + aborted + bytes(control) + bytes(broken) + good)]
    (piece,) = open_runs(runs, is_aborted=lambda head, first: head.producer == 9 and first == 12)
    assert piece.rows.column("offset").to_pylist() == [10, 11, 16, 17]
    assert [(a.first, a.last, a.why) for a in piece.aside] == [
        (12, 12, ABORTED),
        (13, 13, CONTROL_BATCH),
        (14, 15, "the checksum differs"),
    ]
    assert [a.is_poisoned for a in piece.aside] == [False, False, True]
    back = with_aside(seal_rows(piece.rows, piece.stretches), piece.aside)
    assert [(batch.first, batch.last) for batch in back] == [(10, 11), (12, 12), (13, 13), (14, 15), (16, 17)]
    assert back[3].data[8:12] + back[3].data[16:] == bytes(broken[8:12] + broken[16:])
    assert back[3].data[12:16] == bytes(4)  # there are no leaders, so no epoch of one


def test_append_time_is_given_to_every_record_and_comes_back():
    from runnel.codec.batches import set_append_time

    batch = bytearray(made_by_a_client([plain_row(0), plain_row(1)]))
    set_append_time(memoryview(batch), 0, 1_800_000_000_000)
    (piece,) = open_runs([Run(0, bytes(batch))])
    assert piece.rows.column("time").to_pylist() == [1_800_000_000_000] * 2
    (again,) = seal_rows(piece.rows, piece.stretches)
    head = read_head(memoryview(again.data))
    assert head.is_append_time
    assert head.max_timestamp == 1_800_000_000_000


def test_pieces_are_bounded():
    data = made_by_a_client([plain_row(n) for n in range(100)])
    pieces = list(open_runs([Run(n * 100, data) for n in range(20)], unfolded_bytes_max=3 * len(data)))
    assert len(pieces) >= 6
    assert sum(piece.rows.num_rows for piece in pieces) == 2000


def test_a_run_that_is_no_run_of_batches_is_corrupt():
    data = made_by_a_client([plain_row(0)])
    for bad in (data[:-1], data + b"\0" * 70, data[:30]):
        with pytest.raises(Corrupt):
            list(open_runs([Run(0, bad)]))


@pytest.mark.skipif(compiled.helper is None, reason="the compiled helper is not built")
def test_both_splitters_agree_on_any_bytes():
    chance = random.Random(7)
    sound = [
        made_by_a_client(
            [
                {
                    "time": n,
                    "key": b"k" * (n % 3),
                    "value": b"x" * n,
                    "headers": [{"key": "h", "value": None}] * (n % 4),
                }
                for n in range(12)
            ]
        )[61:]
        for _ in range(3)
    ]
    seen = set()
    for _ in range(3000):
        section = bytearray(chance.choice(sound))
        for _ in range(chance.randrange(4)):
            section[chance.randrange(len(section))] = chance.choice((0, 1, 2, 127, 128, 255, chance.randrange(256)))
        section = section[: chance.randrange(len(section) + 1)] if chance.random() < 0.3 else section
        facts = array("q", [chance.choice((12, 12, 11, 13, 0)), 100, chance.choice((11, 11, 5)), 5, -1]).tobytes()
        sections = [bytes(section), sound[0]]
        facts += array("q", [12, 200, 11, 5, -1]).tobytes()
        ours = compiled.helper.split(sections, facts)
        assert ours == records_plain.split(sections, facts)
        seen.add(memoryview(ours[0]).cast("i")[0])
    assert {0, 1, 2, 4, 5} <= seen


def test_headers_keep_their_type():
    assert as_rows([{**plain_row(0)}]).schema.field("headers").type == HEADERS
