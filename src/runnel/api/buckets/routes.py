"""The addresses of streams in buckets: what is asked, then the service, then the answer.

    /{bucket}                              PUT, GET, DELETE
    /{bucket}/streams                      GET: prefix, after, limit
    …/{stream}                             the protocol (streams.py)
    …/{stream}/append-batch                POST: several appends, each for itself
    …/{stream}/attrs                       GET, PUT
    …/{stream}/snapshot[/{offset}]         GET, PUT, DELETE
    …/{stream}/retention[/{offset}]        PUT
    …/{stream}/bootstrap                   GET
    /{bucket}/{affinity}/$transaction      POST: several appends, all or none
    /__ursula/usage, /__ursula/quota/{bucket}, /__ursula/purge/{bucket}

`…` is /{bucket} or /{bucket}/{affinity}.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec

from runnel.api.answer import Answer
from runnel.api.buckets import answers, bootstrap
from runnel.api.buckets.addresses import LISTING, Address, address, bucket_id
from runnel.api.buckets.answers import announce
from runnel.api.buckets.attributes import attributes_body, parse_attributes
from runnel.api.buckets.pen import Pen
from runnel.api.buckets.service import BucketService, TransactionFailed, traits_of
from runnel.api.buckets.streams import BucketStreams
from runnel.api.buckets.tails import RecordTails
from runnel.api.buckets.transactions import AFFINITY_TOKEN, parse_transaction
from runnel.api.buckets.transactions import TOKEN as TRANSACTION_TOKEN
from runnel.api.durable.routes import StreamRoutes, Work, with_a_task, writer_of
from runnel.api.messages import Request, Response
from runnel.api.problems import problem
from runnel.api.routes import Found as Parts
from runnel.api.routes import RoutedHandle, Routes
from runnel.api.streams import words
from runnel.api.streams.answers import Appended
from runnel.api.streams.asks import AppendAsk, integer
from runnel.api.streams.content_types import created_type, is_json, media_type
from runnel.api.streams.frames import frames
from runnel.api.streams.offsets import Place, mint, parse
from runnel.errors import Refused, RunnelError

PAGE_MAX = 1000
PER_FRAME = (
    words.CLOSED, words.PRODUCER_ID, words.PRODUCER_EPOCH, words.PRODUCER_SEQ, words.SEQ, words.RECORD_MATCH,
)  # fmt: skip
BY_AFFINITY = {words.EXTENSIONS: AFFINITY_TOKEN}
Target = TypeVar("Target")


class _Limits(msgspec.Struct, forbid_unknown_fields=True):
    max_streams: int | None = None
    max_retained_bytes: int | None = None


class BucketRoutes:
    """See the module. `taken` are first parts of paths that lead elsewhere, and so cannot be buckets."""

    def __init__(self, service: BucketService, protocol: StreamRoutes, tails: RecordTails) -> None:
        self._service = service
        self._streams = BucketStreams(service, protocol, tails)
        self._tasks = service.world.tasks
        self._chance = service.world.chance.fork("bootstrap")
        self._taken: frozenset[str] = frozenset()

    def add_to(self, routes: Routes) -> None:
        """Add the addresses, as the last ones: what has been added before leads where it led."""
        self._taken = routes.first_parts()
        bucket, stream, group = self._bucket, self._stream, self._group
        routes.add("PUT", "/{bucket}", self._task(self.make, bucket))
        routes.add("GET", "/{bucket}", self._task(self.tell, bucket))
        routes.add("DELETE", "/{bucket}", self._task(self.delete, bucket))
        routes.add("GET", f"/{{bucket}}/{LISTING}", self._task(self.list, bucket))
        routes.add("POST", "/{bucket}/{affinity}/$transaction", self._task(self.commit, group))
        for pattern in ("/{bucket}/{stream}", "/{bucket}/{affinity}/{stream}"):
            routes.add("PUT", pattern, self._task(self._streams.put, stream))
            routes.add("POST", pattern, self._quick(self._streams.post))
            routes.add("GET", pattern, self._task(self._streams.get, stream))
            routes.add("HEAD", pattern, self._task(self._streams.head, stream))
            routes.add("DELETE", pattern, self._task(self._streams.delete, stream))
            routes.add("POST", f"{pattern}/append-batch", self._task(self.append_batch, stream))
            routes.add("GET", f"{pattern}/attrs", self._task(self.attributes, stream))
            routes.add("PUT", f"{pattern}/attrs", self._task(self.set_attributes, stream))
            routes.add("GET", f"{pattern}/bootstrap", self._task(self.bootstrap, stream))
            for below in ("/snapshot", "/snapshot/{offset}"):
                routes.add("GET", pattern + below, self._task(self.snapshot, self._placed))
                routes.add("PUT", pattern + below, self._task(self.publish, self._placed))
            routes.add("DELETE", f"{pattern}/snapshot/{{offset}}", self._task(self.unpublish, self._placed))
            for below in ("/retention", "/retention/{offset}"):
                routes.add("PUT", pattern + below, self._task(self.retain, self._placed))
        routes.add("GET", "/__ursula/usage", self._task(self.usage, _nothing))
        routes.add("PUT", "/__ursula/quota/{bucket}", self._task(self.limit, bucket))
        routes.add("DELETE", "/__ursula/purge/{bucket}", self._task(self.purge, bucket))

    # --- what a path names

    def _bucket(self, parts: Parts) -> str:
        return bucket_id(parts["bucket"], self._taken)

    def _group(self, parts: Parts) -> Address:
        """An affinity key, as the address of a stream that nobody has."""
        return address(parts["bucket"], "any", parts["affinity"], self._taken)

    def _stream(self, parts: Parts) -> Address:
        return address(parts["bucket"], parts["stream"], parts.get("affinity"), self._taken)

    def _placed(self, parts: Parts) -> tuple[Address, Place | None]:
        offset = parts.get("offset")
        return self._stream(parts), None if offset is None else parse(offset)

    def _task(self, work: Work[Target], target_of: Callable[[Parts], Target]) -> RoutedHandle:
        handle = with_a_task(self._tasks, work, target_of, answers.answer_of)

        def announced(request: Request, respond: Answer, parts: Parts) -> None:
            if "affinity" in parts:
                respond.also = BY_AFFINITY
            handle(request, respond, parts)

        return announced

    def _quick(self, work: Callable[[Request, Answer, Address], None]) -> RoutedHandle:
        """A handler that answers by callback, without a task."""

        def handle(request: Request, respond: Answer, parts: Parts) -> None:
            try:
                work(request, respond, self._stream(parts))
            except RunnelError as error:
                respond(answers.answer_of(error))

        return handle

    # --- buckets

    async def make(self, _: Request, respond: Answer, name: str) -> None:
        await self._service.buckets.make(name)
        respond(Response(201, {**words.BROWSER, "location": f"/{name}"}))

    async def tell(self, _: Request, respond: Answer, name: str) -> None:
        bucket = await self._service.buckets.find(name)
        respond(answers.bucket_told(bucket, await self._service.buckets.count(name)))

    async def delete(self, _: Request, respond: Answer, name: str) -> None:
        await self._service.buckets.delete(name)
        respond(Response(204, words.BROWSER))

    async def list(self, request: Request, respond: Answer, name: str) -> None:
        most = integer("limit", request.ask("limit") or str(PAGE_MAX), PAGE_MAX)
        if not most:
            raise Refused(f"limit is 1 to {PAGE_MAX}")
        prefix, after = request.ask("prefix") or "", request.ask("after") or ""
        await self._service.buckets.find(name)
        page = await self._service.buckets.page(name, prefix=prefix, after=after, most=most)
        respond(answers.listing(name, prefix, page))

    async def usage(self, _: Request, respond: Answer, __: None) -> None:
        respond(answers.usage_told(await self._service.buckets.usage()))

    async def limit(self, request: Request, respond: Answer, name: str) -> None:
        try:
            asked = msgspec.json.decode(request.body or b"{}", type=_Limits)
        except msgspec.DecodeError as error:
            raise Refused(f"the body is not what limits a bucket: {error}") from None
        if any(most is not None and most < 0 for most in (asked.max_streams, asked.max_retained_bytes)):
            raise Refused("a limit is 0 or more; leave it out for none")
        await self._service.buckets.find(name)
        await self._service.buckets.limit(name, streams_max=asked.max_streams, bytes_max=asked.max_retained_bytes)
        respond(Response(204, words.BROWSER))

    async def purge(self, _: Request, respond: Answer, name: str) -> None:
        await self._service.buckets.find(name)
        removed, shards = await self._service.purge(name)
        told = {"bucket": name, "removed_streams": removed, "groups_with_streams": shards}
        respond(answers.json_answer({**told, "cold_gc_entries_reclaimed": 0}))

    # --- several appends

    async def append_batch(self, request: Request, respond: Answer, at: Address) -> None:
        headers = request.headers
        unfit = next((name for name in PER_FRAME if name in headers), None)
        if unfit is not None:
            raise Refused(f"{unfit} is for one append, not for a batch of them")
        content_type = headers.get("content-type")
        if not content_type:
            raise Refused("Content-Type is missing: send the stream's own")
        payloads = frames(request.body)
        stream = await self._service.streams.find(at.name)
        json = is_json(traits_of(stream).content_type)
        told: list[dict[str, object] | None] = [None] * len(payloads)
        left = len(payloads)
        announce(respond, at, json=json)
        all_told = asyncio.get_running_loop().create_future()
        writer = writer_of(respond, self._service.engine)

        def tell(index: int, ask: AppendAsk, outcome: Appended | RunnelError) -> None:
            nonlocal left
            told[index] = answers.frame_told(ask, outcome, json=json)
            left -= 1
            if not left and not all_told.done():
                all_told.set_result(None)

        self._service.room(at.name)
        for index, payload in enumerate(payloads):
            ask = AppendAsk(payload, content_type, close=False, producer=None, seq=None, record_match=None)
            self._service.streams.append(at.name, ask, writer, partial(tell, index, ask))
        await all_told
        short = "return=minimal" in headers.get("prefer", "") and not json
        if short and all(each is not None and each["status"] == 204 for each in told):
            respond(Response(204, words.BROWSER))
        else:
            respond(answers.json_answer(told))

    async def commit(self, request: Request, respond: Answer, at: Address) -> None:
        operations = parse_transaction(request.body)
        self._service.room(at.name)
        for each in operations:
            address(at.bucket, each.stream, at.affinity)
        try:
            outcomes = await self._service.commit(at.placement, operations)
        except TransactionFailed as failure:
            response = answers.failed(failure, operations[failure.index].ask)
        else:
            told = [
                answers.frame_told(each.ask, outcome, json=is_json(each.ask.content_type or ""))
                for each, outcome in zip(operations, outcomes, strict=True)
            ]
            response = answers.json_answer(told)
        tokens = f"{AFFINITY_TOKEN}, {TRANSACTION_TOKEN}"
        respond.also = {words.EXTENSIONS: tokens}
        respond(response)

    # --- beside a stream

    async def attributes(self, _: Request, respond: Answer, at: Address) -> None:
        stream = await self._service.streams.find(at.name)
        body = attributes_body(traits_of(stream).attributes)
        respond(Response(200, answers.JSON, body))

    async def set_attributes(self, request: Request, respond: Answer, at: Address) -> None:
        if media_type(request.headers.get("content-type", "")) != "application/json":
            raise Refused("Content-Type is not application/json")
        await self._service.set_attributes(at.name, parse_attributes(request.body))
        respond(Response(204, words.BROWSER))

    async def snapshot(self, request: Request, respond: Answer, target: tuple[Address, Place | None]) -> None:
        at, place = target
        stream, snapshot = await self._service.snapshot(at.name, place)
        headers = answers.snapshot_facts(stream, snapshot)
        if place is None:
            location = f"{request.raw_path.rstrip('/')}/{mint(snapshot.offset)}"
            respond(Response(307, {**headers, "location": location}))
            return
        body = await self._service.engine.snapshots.body(snapshot)
        respond(Response(200, {**headers, "content-type": snapshot.content_type}, body))

    async def publish(self, request: Request, respond: Answer, target: tuple[Address, Place | None]) -> None:
        at, place = target
        content_type = created_type(request.headers.get("content-type"))
        match = request.headers.get(words.SNAPSHOT_MATCH)
        where = await self._where(request, at, place)
        stream, snapshot = await self._service.publish(at.name, where, request.body, content_type, match)
        headers = {**words.BROWSER, **answers.snapshot_headers(snapshot), words.NEXT_OFFSET: mint(stream.end)}
        respond(Response(204, headers))

    async def unpublish(self, _: Request, respond: Answer, target: tuple[Address, Place | None]) -> None:
        at, place = target
        await self._service.snapshot(at.name, place)
        detail = "the newest snapshot stays: a stream that has let records go needs it. Publish a newer one"
        respond(problem(409, detail, words.BROWSER))

    async def retain(self, request: Request, respond: Answer, target: tuple[Address, Place | None]) -> None:
        at, place = target
        stream = await self._service.retain(at.name, await self._where(request, at, place))
        respond(Response(204, {**words.BROWSER, words.NEXT_OFFSET: mint(stream.end)}))

    async def _where(self, request: Request, at: Address, place: Place | None) -> Place:
        """The place in the path, or the record in the query."""
        record = request.ask("record")
        if (place is None) == (record is None):
            raise Refused("name one place: …/{offset}, or ?record=… in a stream of JSON")
        if place is not None:
            return place
        stream = await self._service.streams.find(at.name)
        if not is_json(traits_of(stream).content_type):
            raise Refused("records are counted in streams of application/json only: name an offset")
        assert record is not None, "one of the two"
        return Place(integer("record", record))

    async def bootstrap(self, request: Request, respond: Answer, at: Address) -> None:
        if request.ask("live") is not None:
            raise Refused("bootstrap has no live mode: go on with a live read from Stream-Next-Offset")
        stream = await self._service.streams.find(at.name)
        traits, end = traits_of(stream), stream.end
        snapshot = traits.snapshot
        body = b"" if snapshot is None else await self._service.engine.snapshots.body(snapshot)
        first = stream.start if snapshot is None else snapshot.offset
        boundary = bootstrap.draw_boundary(self._chance)
        headers = {
            **words.BROWSER,
            "content-type": f"multipart/mixed; boundary={boundary}",
            "cache-control": "no-store",
            words.SNAPSHOT_OFFSET: bootstrap.NO_SNAPSHOT if snapshot is None else mint(snapshot.offset),
            words.NEXT_OFFSET: mint(end),
            words.UP_TO_DATE: "true",
        }
        if snapshot is not None:
            headers[words.SNAPSHOT_DIGEST] = snapshot.digest
        if stream.closed:
            headers[words.CLOSED] = "true"
        json = is_json(traits.content_type)
        if json:
            headers |= {words.RECORD_FIRST: str(stream.start), words.RECORD_NEXT: str(end)}
        announce(respond, at, json=json)
        pen = Pen(respond)
        respond.begin(200, headers)
        if snapshot is None:
            await pen.write(bootstrap.empty_part(boundary))
        else:
            await pen.write(bootstrap.part(boundary, snapshot.content_type, body))
        while first < end and not respond.gone:
            found = await self._service.records(stream, first, most=end - first)
            await pen.write(b"".join([bootstrap.part(boundary, traits.content_type, each) for each in found.values]))
            first = found.following
        if not respond.gone:
            respond.write(bootstrap.end(boundary))
            respond.end()


def _nothing(_: Parts) -> None:
    return None
