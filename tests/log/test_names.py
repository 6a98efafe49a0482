"""Names of objects say when and who, in order of time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.errors import Refused
from runnel.log.names import body_name, first_name_at, lengthen, parse_wal_name, shorten, stamp_of, wal_name

stamps = st.integers(0, 2**48 - 1)
uniques = st.integers(0, 2**64 - 1)


@given(stamp=stamps, unique=uniques)
def test_a_name_its_parts_and_its_16_bytes_say_the_same(stamp, unique):
    name = wal_name(stamp, unique)
    assert parse_wal_name(name) == (stamp, unique)
    assert len(shorten(name)) == 16
    assert lengthen(shorten(name)) == name


@given(one=stamps, two=stamps, unique=uniques, other=uniques)
def test_names_and_their_short_forms_are_in_order_of_time(one, two, unique, other):
    early, late = sorted((one, two))
    if early != late:
        assert wal_name(early, unique) < wal_name(late, other)
        assert shorten(wal_name(early, unique)) < shorten(wal_name(late, other))
        assert wal_name(early, unique) < first_name_at(late) < wal_name(late, other)


def test_a_name_is_what_it_is():
    assert wal_name(1_700_000_000_000, 255) == "wal/018bcfe56800-00000000000000ff"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "wal/",
        "wal/018bcfe56800",
        "wal/018BCFE56800-00000000000000ff",
        "wal/018bcfe56800-00000000000000ff\n",
        "wal/018bcfe56800-00000000000000ff/x",
        "table/018bcfe56800-00000000000000ff",
    ],
)
def test_other_names_are_refused(name):
    with pytest.raises(Refused, match="is not the name"):
        parse_wal_name(name)


@given(stamp=stamps, unique=uniques)
def test_all_that_is_swept_says_when_it_was_written(stamp, unique):
    assert stamp_of(wal_name(stamp, unique)) == stamp_of(body_name(stamp, unique)) == stamp
    with pytest.raises(Refused, match="is not the name"):
        parse_wal_name(body_name(stamp, unique))
    with pytest.raises(Refused, match="neither"):
        stamp_of(f"tables/{wal_name(stamp, unique)}")


def test_16_bytes_from_elsewhere_are_refused():
    with pytest.raises(Refused, match="beyond all bounds"):
        lengthen(b"\xff" * 16)
