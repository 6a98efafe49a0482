"""What the client of Durable Streams decides, with the test as the network."""

from typing import Any

import pytest

from runnel.client.streams import Patience, StreamClosed
from runnel.client.streams_talk import Call, Claim, Lost, Pause, Reply, Sayings, Unreached
from runnel.errors import AlreadyThere, Fenced, NotThere, Refused, Unavailable, Uncertain
from runnel.world.chance import Chance

SAYINGS = Sayings(Patience(attempts_max=4), Chance(1))


def play(talk: Any, *scene: Any) -> tuple[Any, list[Call]]:
    """Answer each call with the next of the scene; return what the talk returns, and the calls."""
    calls, rest = [], list(scene)
    said = next(talk)
    while True:
        try:
            if isinstance(said, Pause):
                assert 0 <= said.seconds <= 2
                said = talk.send(None)
                continue
            calls.append(said)
            answer = rest.pop(0)
            said = talk.throw(answer) if isinstance(answer, Exception) else talk.send(answer)
        except StopIteration as end:
            assert not rest, f"never asked for {rest}"
            return end.value, calls


def reply(status: int, **headers: str) -> Reply:
    return Reply(status, {name.replace("_", "-"): value for name, value in headers.items()}, b"")


def produce(claim: Claim, *scene: Any, body: bytes = b"x") -> tuple[str, list[Call]]:
    return play(claim.append(SAYINGS, "text/plain", body, close=False), *scene)


def sequence(call: Call) -> tuple[str, str]:
    return call.headers["producer-epoch"], call.headers["producer-seq"]


def test_a_plain_append_is_not_repeated_once_it_may_have_arrived() -> None:
    append = lambda: SAYINGS.append("text/plain", b"x", {})  # noqa: E731
    assert play(append(), Unreached("down"), reply(503), reply(204, stream_next_offset="7"))[0] == "7"
    with pytest.raises(Uncertain):
        play(append(), Lost("cut"))
    with pytest.raises(Uncertain):
        play(append(), reply(500))
    with pytest.raises(Unavailable):
        play(append(), *[Unreached("down")] * 4)


def test_a_producers_append_goes_through_every_break_with_one_sequence() -> None:
    claim = Claim("p")
    _, calls = produce(
        claim, Lost("cut"), reply(500), Unreached("down"), reply(204, producer_epoch="0", producer_seq="0")
    )
    assert {sequence(call) for call in calls} == {("0", "0")}
    _, calls = produce(claim, reply(200))
    assert [sequence(call) for call in calls] == [("0", "1")]


def test_a_restarted_producer_does_not_lose_bytes_to_its_former_self() -> None:
    claim = Claim("p")
    _, calls = produce(claim, reply(204, producer_epoch="3", producer_seq="9"), reply(200))
    assert [sequence(call) for call in calls] == [("0", "0"), ("4", "0")]
    assert (claim.epoch, claim.seq) == (4, 1)


def test_a_stale_epoch_is_claimed_anew_or_fenced() -> None:
    _, calls = produce(Claim("p"), reply(403, producer_epoch="6"), reply(200))
    assert sequence(calls[1]) == ("7", "0")
    with pytest.raises(Fenced):
        produce(Claim("p", auto_claim=False), reply(403, producer_epoch="6"))
    with pytest.raises(Fenced):
        produce(Claim("p"), *[reply(403, producer_epoch="6")] * 4)


def test_bytes_that_may_be_in_the_stream_are_not_sent_again_in_a_new_epoch() -> None:
    with pytest.raises(Uncertain):
        produce(Claim("p"), Lost("cut"), reply(403, producer_epoch="1"))


def test_an_unresolved_append_comes_before_any_other() -> None:
    claim = Claim("p")
    with pytest.raises(Uncertain):
        produce(claim, *[Lost("cut")] * 4)
    with pytest.raises(Refused):
        produce(claim, body=b"other")
    produce(claim, reply(204, producer_epoch="0", producer_seq="0"))
    _, calls = produce(claim, reply(200), body=b"other")
    assert sequence(calls[0]) == ("0", "1")


def test_answers_become_errors_that_say_what_to_do() -> None:
    for answer, kind in [
        (reply(404), NotThere),
        (reply(410), NotThere),
        (reply(409, stream_closed="true"), StreamClosed),
        (reply(409), Refused),
        (reply(400), Refused),
    ]:
        with pytest.raises(kind):
            play(SAYINGS.append("text/plain", b"x", {}), answer)
    with pytest.raises(AlreadyThere):
        play(SAYINGS.create("text/plain", {}, b""), reply(409))


def test_a_delete_whose_answer_was_lost_finds_the_stream_gone() -> None:
    play(SAYINGS.delete(), Lost("cut"), reply(404))
    with pytest.raises(NotThere):
        play(SAYINGS.delete(), reply(404))


def test_reads_are_repeated_and_carry_their_cursor() -> None:
    chunk, calls = play(
        SAYINGS.read("o", live=True, cursor="5"), Lost("cut"), reply(204, stream_next_offset="o", stream_cursor="6")
    )
    assert (chunk.next_offset, chunk.cursor, chunk.data) == ("o", "6", b"")
    assert [call.query for call in calls] == ["cursor=5&live=long-poll&offset=o"] * 2
