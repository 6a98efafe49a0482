"""What became of an ask, as a response: the one place that knows statuses and headers of the protocol.

The engine's verdicts come in as they are (`metadata.producers.Verdict`); precedence among them was settled where they
were made: what the producer table says, then closed, then content type, then `Stream-Seq`.
"""

from dataclasses import dataclass

from runnel.api.messages import Response
from runnel.api.problems import problem
from runnel.api.streams import caching, words
from runnel.api.streams.asks import AppendAsk, moment_text
from runnel.api.streams.offsets import mint
from runnel.metadata.producers import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The verdict on an append. `next_offset` is behind this append, or the stream's end if nothing was appended."""

    verdict: Verdict
    next_offset: int = 0
    first: int | None = None
    """The offset of the first record of this append, or of what it repeats, if that is known."""
    records: int = 0
    closed: bool = False
    epoch: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A stream as HEAD tells of it."""

    stream: int
    next_offset: int
    content_type: str
    closed: bool
    ttl_seconds: int | None = None
    expires_ms: int | None = None


def append_answer(ask: AppendAsk, outcome: Appended) -> Response:
    producer, verdict = ask.producer, outcome.verdict
    headers = {**words.BROWSER, words.NEXT_OFFSET: mint(outcome.next_offset)}
    if outcome.closed:
        headers[words.CLOSED] = "true"
    if verdict is Verdict.ACCEPTED:
        if producer is None:
            return Response(204, headers)
        headers[words.PRODUCER_EPOCH] = str(producer.epoch)
        headers[words.PRODUCER_SEQ] = str(producer.seq)
        return Response(200 if ask.body else 204, headers)
    if verdict in {Verdict.DUPLICATE, Verdict.DUPLICATE_FORGOTTEN}:
        if producer is not None:
            headers[words.PRODUCER_EPOCH] = str(producer.epoch if outcome.epoch is None else outcome.epoch)
            headers[words.PRODUCER_SEQ] = str(producer.seq if outcome.last is None else outcome.last)
        return Response(204, headers)
    return _refusal(ask, outcome, headers)


def _refusal(ask: AppendAsk, outcome: Appended, headers: dict[str, str]) -> Response:
    end = outcome.next_offset
    match outcome.verdict:
        case Verdict.STREAM_UNKNOWN:
            return missing()
        case Verdict.STREAM_CLOSED:
            headers[words.CLOSED] = "true"
            return problem(409, "the stream is closed", headers)
        case Verdict.EPOCH_STALE:
            headers[words.PRODUCER_EPOCH] = str(outcome.epoch)
            return problem(403, f"the producer is in epoch {outcome.epoch}: come back with a higher one", headers)
        case Verdict.EPOCH_MUST_BEGIN_AT_ZERO:
            return problem(400, "a new epoch begins with Producer-Seq 0", headers)
        case Verdict.OUT_OF_ORDER | Verdict.PRODUCER_UNKNOWN:
            expected = 0 if outcome.last is None else outcome.last + 1
            assert ask.producer is not None, "only a producer's append can be out of order"
            headers[words.PRODUCER_EXPECTED_SEQ] = str(expected)
            headers[words.PRODUCER_RECEIVED_SEQ] = str(ask.producer.seq)
            return problem(409, f"Producer-Seq {expected} is next, not {ask.producer.seq}", headers)
        case Verdict.SEQUENCE_REGRESSED:
            return problem(409, "Stream-Seq must be greater, byte by byte, than the last one", headers)
        case Verdict.NAME_TAKEN:
            return problem(409, "the stream exists", headers)
        case Verdict.OTHERS_REFUSED:
            return problem(409, "another append of the transaction was refused, so this one did not happen", headers)
        case Verdict.MATCH_FAILED | Verdict.OFFSET_UNEXPECTED:
            headers[words.RECORD_NEXT] = str(end)
            return problem(412, f"the next record is {end}", headers)
        case _:
            raise AssertionError(f"no answer for {outcome.verdict!r}")


def type_mismatch(wanted: str, end: int) -> Response:
    headers = {**words.BROWSER, words.NEXT_OFFSET: mint(end)}
    return problem(409, f"the stream's content type is {wanted}", headers)


def missing() -> Response:
    return problem(404, "there is no such stream", words.BROWSER)


def gone() -> Response:
    """Deleted, but forks still read from it; or trimmed away."""
    return problem(410, "the stream, or this part of it, is gone", words.BROWSER)


def mishap() -> Response:
    """A mistake of ours: nothing is said of it but that it was one."""
    return problem(500, "something went wrong inside the server", words.BROWSER)


def refused(error: BaseException, status: int = 400) -> Response:
    return problem(status, str(error), words.BROWSER)


def created_answer(stream: Described, *, new: bool, location: str) -> Response:
    headers = {
        **words.BROWSER,
        "content-type": stream.content_type,
        words.NEXT_OFFSET: mint(stream.next_offset),
    }
    if stream.closed:
        headers[words.CLOSED] = "true"
    if new:
        headers["location"] = location
    return Response(201 if new else 200, headers)


def described_answer(stream: Described) -> Response:
    """HEAD."""
    tail = mint(stream.next_offset)
    headers = {
        **words.BROWSER,
        "content-type": stream.content_type,
        "cache-control": caching.NEVER,
        words.NEXT_OFFSET: tail,
        "etag": caching.etag(stream.stream, "-1", tail, closed=stream.closed),
    }
    if stream.closed:
        headers[words.CLOSED] = "true"
    if stream.ttl_seconds is not None:
        headers[words.TTL] = str(stream.ttl_seconds)
    if stream.expires_ms is not None:
        headers[words.EXPIRES_AT] = moment_text(stream.expires_ms)
    return Response(200, headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What a read found: where it ends, whether that is the tail, and whether the stream has ended there."""

    stream: int
    start: str
    next_offset: int
    content_type: str
    up_to_date: bool
    closed: bool

    @property
    def at_the_end(self) -> bool:
        return self.closed and self.up_to_date


def read_headers(found: Range, *, cursor: str | None, shared: bool = True, etag: bool = True) -> dict[str, str]:
    """Headers of a finite read. Without an ETag (`offset=now`) it may not be stored either."""
    next_offset = mint(found.next_offset)
    headers = {**words.BROWSER, "content-type": found.content_type, words.NEXT_OFFSET: next_offset}
    if etag:
        headers["etag"] = caching.etag(found.stream, found.start, next_offset, closed=found.at_the_end)
        headers["cache-control"] = caching.SHARED if shared else caching.PRIVATE
    else:
        headers["cache-control"] = caching.NEVER
    if found.up_to_date:
        headers[words.UP_TO_DATE] = "true"
    if found.at_the_end:
        headers[words.CLOSED] = "true"
    if cursor is not None:
        headers[words.CURSOR] = cursor
    return headers


def read_answer(
    found: Range, body: bytes, *, cursor: str | None, if_none_match: str | None, shared: bool = True, etag: bool = True
) -> Response:
    """A catch-up read, or a long-poll that has data."""
    headers = read_headers(found, cursor=cursor, shared=shared, etag=etag)
    if etag and caching.matches(if_none_match, headers["etag"]):
        return Response(304, headers)
    return Response(200, headers, body)


def nothing_new_answer(found: Range, *, cursor: str | None) -> Response:
    """A long-poll that ends without data: its time is over, or the stream has ended."""
    headers = read_headers(found, cursor=cursor, etag=False)
    del headers["content-type"]
    return Response(204, headers)


def sse_headers(content_type: str, *, binary: bool) -> dict[str, str]:
    headers = {**words.BROWSER, "content-type": content_type, "cache-control": caching.LIVE}
    if binary:
        headers[words.SSE_ENCODING] = "base64"
    return headers
