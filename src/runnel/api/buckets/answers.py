"""What is told of streams in buckets, as responses: statuses and headers beyond those of the protocol."""

from dataclasses import replace

import msgspec

from runnel.api.answer import Answer
from runnel.api.buckets import records
from runnel.api.buckets.addresses import Address
from runnel.api.buckets.service import Records, TransactionFailed, traits_of
from runnel.api.buckets.transactions import AFFINITY_TOKEN
from runnel.api.durable.trouble import answer_of as protocol_answer_of
from runnel.api.messages import Response
from runnel.api.problems import problem
from runnel.api.streams import answers, caching, words
from runnel.api.streams.answers import Appended
from runnel.api.streams.asks import AppendAsk
from runnel.api.streams.content_types import is_json
from runnel.api.streams.offsets import mint
from runnel.engine.buckets import OverLimit, Page, Usage
from runnel.errors import RunnelError
from runnel.metadata.buckets import Bucket
from runnel.metadata.stream import Snapshot, Stream
from runnel.metadata.updates.snapshots import OffsetGone

WRITE_UNIT_BYTES = 10_240
JSON = {"content-type": "application/json", "cache-control": caching.NEVER, **words.BROWSER}


def answer_of(error: RunnelError) -> Response:
    match error:
        case OverLimit():
            return problem(429, str(error), words.BROWSER)
        case records.RecordGone() | OffsetGone():
            return problem(410, str(error), words.BROWSER)
    return protocol_answer_of(error)


def announce(respond: Answer, at: Address, *, json: bool = False) -> None:
    """Let an answer say what is active for its stream: extensions that clients ask for before they rely on them."""
    tokens = [records.TOKEN] if json else []
    if at.affinity is not None:
        tokens.append(AFFINITY_TOKEN)
    if tokens:
        respond.also = {words.EXTENSIONS: ", ".join(tokens)}


def appended(ask: AppendAsk, outcome: Appended, *, json: bool) -> Response:
    """An append's answer; of a stream of JSON, with the numbers of the records that it made."""
    response = answers.append_answer(ask, outcome)
    if json and response.status < 300:
        response.headers = {**response.headers, **made_records(outcome)}
    return response


def made_records(outcome: Appended) -> dict[str, str]:
    """The records of an append; a repetition so old that its place is forgotten says where the stream is now."""
    start = outcome.first if outcome.first is not None else outcome.next_offset
    following = start + outcome.records if outcome.first is not None else outcome.next_offset
    return {words.RECORD_START: str(start), words.RECORD_NEXT: str(following)}


def frame_told(ask: AppendAsk, outcome: Appended | RunnelError, *, json: bool) -> dict[str, object]:
    """What became of one frame of a batch, or of one operation of a transaction."""
    response = answer_of(outcome) if isinstance(outcome, RunnelError) else answers.append_answer(ask, outcome)
    told: dict[str, object] = {"status": response.status}
    if words.NEXT_OFFSET in response.headers:
        told["stream_next_offset"] = response.headers[words.NEXT_OFFSET]
    if response.headers.get(words.CLOSED) == "true":
        told["stream_closed"] = True
    if response.status >= 300:
        document = msgspec.json.decode(response.body)
        told["error_code"] = str(document["title"]).lower().replace(" ", "_")
        told["error"] = document.get("detail", "")
    elif json and isinstance(outcome, Appended):
        start, following = made_records(outcome).values()
        told["stream_record_start"], told["stream_record_next"] = int(start), int(following)
    return told


def failed(failure: TransactionFailed, ask: AppendAsk) -> Response:
    """A transaction's answer is that of the operation to blame."""
    outcome = failure.outcome
    response = answer_of(outcome) if isinstance(outcome, RunnelError) else answers.append_answer(ask, outcome)
    if response.status < 300:  # a part of it was done before
        response = problem(409, "this was appended before, by a transaction with other operations", words.BROWSER)
    document = msgspec.json.decode(response.body)
    detail = f"operation {failure.index}: {document.get('detail', '')}"
    return problem(response.status, detail, response.headers, operation=failure.index)


def described(response: Response, stream: Stream) -> Response:
    """HEAD, with records and the newest snapshot."""
    traits = traits_of(stream)
    more: dict[str, str] = {}
    if is_json(traits.content_type):
        more[words.RECORD_FIRST], more[words.RECORD_NEXT] = str(stream.start), str(stream.end)
    if traits.snapshot is not None:
        more |= snapshot_headers(traits.snapshot)
    return replace(response, headers={**response.headers, **more})


def snapshot_headers(snapshot: Snapshot) -> dict[str, str]:
    return {words.SNAPSHOT_OFFSET: mint(snapshot.offset), words.SNAPSHOT_DIGEST: snapshot.digest}


def snapshot_facts(stream: Stream, snapshot: Snapshot) -> dict[str, str]:
    """Headers of every answer that names a snapshot."""
    up_to_date = snapshot.offset >= stream.end
    headers = {
        **words.BROWSER,
        **snapshot_headers(snapshot),
        "cache-control": caching.NEVER,
        words.NEXT_OFFSET: mint(snapshot.offset),
        words.UP_TO_DATE: "true" if up_to_date else "false",
    }
    if stream.closed and up_to_date:
        headers[words.CLOSED] = "true"
    return headers


def read(found: Records, *, envelope: bool) -> Response:
    """Records as lines."""
    body = records.envelopes(found.first, found.values) if envelope else records.lines(found.values)
    headers = {
        **words.BROWSER,
        **records.record_headers(found.start, found.first, found.following),
        "content-type": records.ENVELOPES if envelope else records.NDJSON,
        "cache-control": caching.NEVER,
        words.NEXT_OFFSET: mint(found.following),
    }
    if found.up_to_date:
        headers[words.UP_TO_DATE] = "true"
        if found.closed:
            headers[words.CLOSED] = "true"
    return Response(200, headers, body)


def nothing_new(found: Records) -> Response:
    """A long-poll whose time is over."""
    response = read(found, envelope=False)
    headers = {name: value for name, value in response.headers.items() if name != "content-type"}
    return Response(204, headers)


# --- buckets


def json_answer(document: object, status: int = 200) -> Response:
    return Response(status, JSON, msgspec.json.encode(document))


def bucket_told(bucket: Bucket, streams: int) -> Response:
    return json_answer(
        {
            "bucket_id": bucket.name,
            "streams": streams,
            "created_at_ms": bucket.born_ms,
            "max_streams": bucket.streams_max,
            "max_retained_bytes": bucket.bytes_max,
        }
    )


def listing(bucket: str, prefix: str, page: Page) -> Response:
    streams = [
        {
            "stream_id": name,
            "status": "Closed" if stream.closed else "Open",
            "content_type": traits_of(stream).content_type,
            "tail_offset": stream.end,
            "next_offset": mint(stream.end),
            "created_at_ms": traits_of(stream).born_ms,
            "last_write_at_ms": max(traits_of(stream).born_ms, traits_of(stream).touched_ms),
        }
        for name, stream in page.streams
    ]
    document = {"bucket_id": bucket, "prefix": prefix, "stream_count": page.total, "streams": streams}
    document["has_more"] = page.more
    document["next_cursor"] = page.streams[-1][0] if page.more else None
    return json_answer(document)


def usage_told(usage: dict[str, Usage]) -> Response:
    buckets = {
        name: {
            "committed_append_bytes": found.bytes_ever,
            "committed_records": found.records_ever,
            "committed_write_units": -(-found.bytes_ever // WRITE_UNIT_BYTES),
            "retained_bytes": found.bytes_kept,
            "stream_count": found.streams,
        }
        for name, found in usage.items()
    }
    return json_answer({"version": 1, "write_unit_bytes": WRITE_UNIT_BYTES, "buckets": buckets})
