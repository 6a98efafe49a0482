import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.errors import Refused
from runnel.ui.cli.kafka.consume import numbers_of
from runnel.ui.cli.kafka.places import BEGINNING, END, Place, moment_of, place_of, resolved, written

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("beginning", BEGINNING),
        ("earliest", BEGINNING),
        ("end", END),
        ("latest", END),
        ("0", Place("offset", 0)),
        ("12", Place("offset", 12)),
        ("-3", Place("last", 3)),
        ("-0", Place("last", 0)),
        ("90s", Place("time", NOW - 90_000)),
        ("15m", Place("time", NOW - 900_000)),
        ("2h", Place("time", NOW - 7_200_000)),
        ("3d", Place("time", NOW - 3 * 86_400_000)),
        ("@5", Place("time", 5)),
        ("2023-11-14T22:13:20Z", Place("time", NOW)),
        ("2023-11-15T00:13:20+02:00", Place("time", NOW)),
    ],
)
def test_places_in_words(text, place):
    assert place_of(text, NOW) == place


@pytest.mark.parametrize(
    "text", ["", "soon", "1.5", "5 minutes", "99999999999999999999", "2023-13-01", "@", "--3", "٣"]
)
def test_what_is_no_place_is_refused_with_the_words_there_are(text):
    with pytest.raises(Refused, match="is no place in a topic: write beginning, end"):
        place_of(text, NOW)


@given(st.integers(0, 4_000_000_000_000))
def test_a_moment_is_read_as_it_is_written(moment):
    assert moment_of(written(moment)) == moment


def test_a_moment_that_no_calendar_holds_is_written_as_a_number():
    assert written(1 << 62) == f"@{1 << 62}"


@given(
    st.sampled_from([BEGINNING, END, Place("offset", 7), Place("last", 3), Place("time", 5)]),
    st.dictionaries(
        st.integers(0, 5), st.tuples(st.integers(0, 20), st.integers(0, 20), st.none() | st.integers(0, 9))
    ),
)
def test_a_place_lies_within_each_partition(place, shape):
    first = {number: low for number, (low, _, _) in shape.items()}
    after = {number: low + kept for number, (low, kept, _) in shape.items()}
    by_time = {number: min(low + at, low + kept) for number, (low, kept, at) in shape.items() if at is not None}
    found = resolved(place, first, after, by_time)
    assert set(found) == set(shape)
    for number, offset in found.items():
        assert first[number] <= offset <= after[number]
        if place == BEGINNING:
            assert offset == first[number]
        if place == END or (place.kind == "time" and number not in by_time):
            assert offset == after[number]
        if place.kind == "last":
            assert after[number] - offset == min(3, after[number] - first[number])
        if place.kind == "time" and number in by_time:
            assert offset == by_time[number]


def test_partitions_as_a_list_of_spans():
    assert numbers_of("0") == [0]
    assert numbers_of("4,0-2,1") == [4, 0, 1, 2]
    for text in ("", "a", "3-1", "1,,2", "-1", "0-9999999"):
        with pytest.raises(Refused, match="--partition"):
            numbers_of(text)
