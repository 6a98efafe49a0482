"""What a client of Durable Streams says, and how it takes the answers: every decision, and no I/O.

An operation is a generator. It yields a `Call` to be sent or a `Pause` to be waited for; it is given a `Reply`, or has
an error thrown in: `Unreached` (the call certainly did not arrive) or `Lost` (it may have). Thus the sync and the
async client are the same program, and a test can be the network.

Reads are repeated until they succeed or patience ends. A plain append is repeated only while it certainly did not
happen; after that it is `Uncertain`. A producer's append carries epoch and sequence, so it is repeated through every
kind of failure and happens once.
"""

import json
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlencode

from runnel.errors import AlreadyThere, Fenced, NotThere, Refused, Unavailable, Uncertain
from runnel.world.chance import Chance

T = TypeVar("T")
START, NOW = "-1", "now"


class StreamClosed(Refused):
    """The stream has ended; nothing can follow."""


class Gone(NotThere):
    """The stream, or the range asked for, was there and is no more."""


class Unreached(Exception):
    """The call certainly did not arrive."""


class Lost(Exception):
    """The connection broke after something was sent: the call may have arrived."""


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes


Talk = Generator[Call | Pause, Reply | None, T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to go on trying: so many attempts, with pauses that double up to a longest one."""

    attempts_max: int = 14
    pause_seconds: float = 0.05
    pause_seconds_max: float = 2.0


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one read gave. `next_offset` is where the next one goes on; `closed` means that there is none."""

    data: bytes
    next_offset: str
    up_to_date: bool
    closed: bool
    content_type: str
    cursor: str | None = None

    def messages(self) -> list[Any]:
        """The messages of a JSON stream."""
        found = json.loads(self.data) if self.data else []
        assert isinstance(found, list), "a JSON stream is read as an array"
        return found


@dataclass(frozen=True, slots=True)
class About:
    """What HEAD tells."""

    next_offset: str
    content_type: str
    closed: bool
    ttl_seconds: int | None
    expires_at: str | None


def _says(reply: Reply) -> str:
    text = reply.body[:500].decode(errors="replace").strip()
    if reply.headers.get("content-type", "").startswith("application/problem+json"):
        with suppress(ValueError, AttributeError):
            text = str(json.loads(reply.body).get("detail", text))
    return f"{reply.status} {text}".strip()


def _refuse(reply: Reply) -> NoReturn:
    """The answer as one of our errors. What is worth repeating has been repeated already."""
    status, says = reply.status, _says(reply)
    if status == 404:
        raise NotThere(f"the stream is not there: {says}")
    if status == 410:
        raise Gone(f"the stream or this part of it is gone: {says}")
    if status == 403:
        raise Fenced(f"another producer took over: {says}")
    if status == 409 and reply.headers.get("stream-closed", "").lower() == "true":
        raise StreamClosed(f"the stream is closed: {says}")
    raise Refused(f"the server refused: {says}")


def _again(status: int) -> bool:
    return status in {408, 429} or status >= 500


def persist(call: Call, patience: Patience, chance: Chance, *, repeatable: bool) -> Talk[tuple[Reply, bool]]:
    """Send until there is an answer that counts. Returns it, and whether an earlier attempt may have arrived."""
    pause, doubtful, why = patience.pause_seconds, False, ""
    for attempt in range(patience.attempts_max):
        if attempt:
            yield Pause(pause * (0.5 + chance.random() / 2))
            pause = min(2 * pause, patience.pause_seconds_max)
        try:
            reply = yield call
        except Unreached as error:
            why = f"not reached: {error}"
            continue
        except Lost as error:
            doubtful, why = True, f"lost: {error}"
            if not repeatable:
                raise Uncertain(f"{call.method} may have happened, its answer was {why}") from None
            continue
        assert reply is not None, "a call is answered"
        if not _again(reply.status):
            return reply, doubtful
        why = _says(reply)
        if reply.status not in {429, 503}:
            doubtful = True
            if not repeatable:
                raise Uncertain(f"{call.method} may have happened: {why}")
        pause = max(pause, _retry_after(reply, patience.pause_seconds_max))
    kind = Uncertain if doubtful and call.method != "GET" else Unavailable
    raise kind(f"{call.method} was tried {patience.attempts_max} times: {why}")


def _retry_after(reply: Reply, most: float) -> float:
    text = reply.headers.get("retry-after", "")
    return min(float(text), most) if text.isascii() and text.isdigit() else 0.0


class Sayings:
    """The operations on one stream, each a `Talk`."""

    def __init__(self, patience: Patience, chance: Chance) -> None:
        self.patience = patience
        self.chance = chance

    def create(self, content_type: str, headers: Mapping[str, str], body: bytes) -> Talk[bool]:
        call = Call("PUT", "", {"content-type": content_type, **headers}, body)
        # Creating is idempotent by the protocol: the same PUT again is a 200.
        reply, _ = yield from persist(call, self.patience, self.chance, repeatable=True)
        if reply.status in {200, 201}:
            return reply.status == 201
        if reply.status == 409:
            raise AlreadyThere(f"a stream of another kind is there: {_says(reply)}")
        _refuse(reply)

    def append(self, content_type: str, body: bytes, headers: Mapping[str, str]) -> Talk[str]:
        call = Call("POST", "", {"content-type": content_type, **headers}, body)
        reply, _ = yield from persist(call, self.patience, self.chance, repeatable=False)
        if reply.status in {200, 204}:
            return reply.headers.get("stream-next-offset", "")
        _refuse(reply)

    def close(self) -> Talk[str]:
        call = Call("POST", "", {"stream-closed": "true"})
        reply, _ = yield from persist(call, self.patience, self.chance, repeatable=True)
        if reply.status in {200, 204}:
            return reply.headers.get("stream-next-offset", "")
        _refuse(reply)

    def delete(self) -> Talk[None]:
        reply, doubtful = yield from persist(Call("DELETE", "", {}), self.patience, self.chance, repeatable=True)
        if reply.status not in {200, 204} and not (doubtful and reply.status in {404, 410}):
            _refuse(reply)

    def about(self) -> Talk[About]:
        reply, _ = yield from persist(Call("HEAD", "", {}), self.patience, self.chance, repeatable=True)
        if reply.status != 200:
            _refuse(reply)
        told = reply.headers
        ttl = told.get("stream-ttl")
        return About(
            told.get("stream-next-offset", ""),
            told.get("content-type", ""),
            told.get("stream-closed", "").lower() == "true",
            int(ttl) if ttl is not None else None,
            told.get("stream-expires-at"),
        )

    def read(self, offset: str, *, live: bool, cursor: str | None) -> Talk[Chunk]:
        """One read; a live one waits at the tail (long-poll) and may come back empty."""
        asked = {"cursor": cursor} if cursor is not None and live else {}
        asked |= {"live": "long-poll"} if live else {}
        query = urlencode({**asked, "offset": offset})
        reply, _ = yield from persist(Call("GET", query, {}), self.patience, self.chance, repeatable=True)
        if reply.status not in {200, 204}:
            _refuse(reply)
        told = reply.headers
        return Chunk(
            reply.body,
            told.get("stream-next-offset", offset),
            told.get("stream-up-to-date", "").lower() == "true",
            told.get("stream-closed", "").lower() == "true",
            told.get("content-type", ""),
            told.get("stream-cursor"),
        )


@dataclass(slots=True)
class Claim:
    """A producer's place: its epoch, and the sequence of its next append."""

    name: str
    epoch: int = 0
    seq: int = 0
    auto_claim: bool = True
    unresolved: bytes | None = None

    def append(self, sayings: Sayings, content_type: str, body: bytes, *, close: bool) -> Talk[str]:
        """Append once, whatever breaks in between.

        Two answers tell that someone else writes under this name: a stale epoch (403), and a duplicate although this
        sequence was sent for the first time (a producer that restarted would lose data silently there). With
        `auto_claim` the next epoch is taken and the bytes are sent again; but not if an earlier attempt may have
        arrived in the old epoch, for then they could stand in the stream twice: that is `Uncertain`.

        An append that ended without an answer is unresolved. It keeps its sequence, so other bytes in its place would
        pass for its repetition and be lost: the same bytes must be sent again first.
        """
        before = self.unresolved is not None
        if before and self.unresolved != body:
            raise Refused(f"an append of producer {self.name!r} is unresolved: send the same bytes again first")
        self.unresolved = body
        for _ in range(sayings.patience.attempts_max):
            headers = {
                "content-type": content_type,
                "producer-id": self.name,
                "producer-epoch": str(self.epoch),
                "producer-seq": str(self.seq),
                **({"stream-closed": "true"} if close else {}),
            }
            reply, doubtful = yield from persist(
                Call("POST", "", headers, body), sayings.patience, sayings.chance, repeatable=True
            )
            doubtful = doubtful or before
            if reply.status == 200 or (reply.status == 204 and (doubtful or not body)):
                self.seq += 1
                self.unresolved = None
                return reply.headers.get("stream-next-offset", "")
            if reply.status not in {204, 403}:
                self.unresolved = None
                _refuse(reply)
            known = reply.headers.get("producer-epoch", "")
            current = int(known) if known.isascii() and known.isdigit() else self.epoch
            self.unresolved = None
            if not self.auto_claim:
                raise Fenced(f"producer {self.name!r} is used by someone else, now in epoch {current}")
            if doubtful:
                raise Uncertain(
                    f"producer {self.name!r} was taken over while an append was under way: it may be in the stream"
                )
            self.epoch, self.seq = max(current, self.epoch) + 1, 0
            self.unresolved = body
        raise Fenced(f"producer {self.name!r} is taken over again and again: let one program use the name")
