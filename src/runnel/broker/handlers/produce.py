"""Produce (0): sealed batches in, offsets out.

The batches of a request become one ticket. They stay where the network put them until they have been copied into an
object; the answer is made in the turn in which the ledger entry is applied, whichever broker wrote the one before it.
Idempotent producers are judged there too, not here: see metadata/producers.py.

What is looked at here is the head of each batch and its checksum, never a record. acks=1 and acks=all mean the same:
durable; with acks=0 nothing is answered, and an error closes the connection, as Apache Kafka does it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.broker.problems import NO_TRANSACTIONS, code_of
from runnel.codec.batches import (
    COMPRESSION_MASK,
    TRANSACTIONAL,
    BadBatch,
    BatchHead,
    Fault,
    check_produced,
    set_append_time,
)
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from runnel.errors import RunnelError
from runnel.ingest.ticket import Answer, Ticket
from runnel.metadata.producers import Verdict
from runnel.metadata.topic_settings import TopicRules
from runnel.model import StreamId

BY_ID_FROM = 13
ZSTD = 4
ZSTD_FROM = 7

_FAULTS: Mapping[Fault, ErrorCode] = {
    Fault.CUT: ErrorCode.CORRUPT_MESSAGE,
    Fault.CHECKSUM: ErrorCode.CORRUPT_MESSAGE,
    Fault.OLD_FORMAT: ErrorCode.INVALID_RECORD,
    Fault.NOT_ONE: ErrorCode.INVALID_RECORD,
    Fault.INCONSISTENT: ErrorCode.INVALID_RECORD,
    Fault.TIMESTAMP_TYPE: ErrorCode.INVALID_TIMESTAMP,
    Fault.TOO_LARGE: ErrorCode.MESSAGE_TOO_LARGE,
}
_VERDICTS: Mapping[Verdict, ErrorCode] = {
    Verdict.STREAM_UNKNOWN: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    Verdict.STREAM_CLOSED: ErrorCode.POLICY_VIOLATION,
    Verdict.OUT_OF_ORDER: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    Verdict.EPOCH_STALE: ErrorCode.INVALID_PRODUCER_EPOCH,
    Verdict.PRODUCER_UNKNOWN: ErrorCode.UNKNOWN_PRODUCER_ID,
    # Clients take this one as done, with an offset that nobody knows any more.
    Verdict.DUPLICATE_FORGOTTEN: ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
}


class Refusal(NamedTuple):
    """Why a partition's batch is not taken in. With `by_record` the client learns it of the batch's first record too."""

    code: ErrorCode
    message: str | None = None
    by_record: bool = False


class Pending:
    """One request whose batches are on their way: where the answer of each batch belongs."""

    __slots__ = ("appended", "call", "responses", "stamps")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.responses: list[TopicProduceResponse] = []
        self.appended: list[tuple[PartitionProduceResponse, StreamId]] = []
        """For each batch of the ticket: what to fill in, and the stream's id."""


class Produce:
    """The handler, and what it needs of the broker."""

    def __init__(self, broker: Broker) -> None:
        self._engine = broker.engine
        self._catalog = broker.catalog
        self._clock = broker.world.clock

    def __call__(self, call: Call) -> None:
        request = call.request
        refused = _refused_as_a_whole(request)
        pending = Pending(call)
        ticket = Ticket(lambda answers: self._answer(pending, answers))
        now = self._clock.now_ms()
        by_id = call.version >= BY_ID_FROM
        for asked in request.topic_data:
            topic, missing = self._catalog.find(asked.name, asked.topic_id, by_id=by_id)
            rules = self._catalog.rules(topic) if topic is not None else None
            partitions = []
            for data in asked.partition_data:
                told = PartitionProduceResponse(index=data.index, base_offset=-1)
                partitions.append(told)
                stream = self._catalog.stream(topic, data.index) if topic is not None else None
                if refused is not None:
                    told.error_code = refused
                elif stream is None or rules is None:
                    told.error_code = missing if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                else:
                    taken = _take(data.records, rules, now, call.version)
                    if isinstance(taken, Refusal):
                        _refuse(told, taken)
                        continue
                    if rules.is_append_time:
                        told.log_append_time_ms = now
                    _, _, _, _, _, _, _, _, stamp, producer, epoch, sequence, records = taken
                    pending.appended.append((told, stream))
                    ticket.add(stream, data.records, records, stamp, producer, epoch, sequence)
            pending.responses.append(
                TopicProduceResponse(name=asked.name, topic_id=asked.topic_id, partition_responses=partitions)
            )
        if ticket.batches:
            self._submit(pending, ticket)
        else:
            self._send(pending)

    def _submit(self, pending: Pending, ticket: Ticket) -> None:
        call = pending.call
        acks = call.request.acks
        ticket.copied = call.hold()
        try:
            self._engine.submit(ticket, call.client.producer if acks else None)
        except RunnelError as error:
            ticket.copied()
            self._answer(pending, [Answer(-1, error=error)] * len(ticket.batches))
            return
        if not acks:
            self._send(pending)

    def _answer(self, pending: Pending, answers: list[Answer]) -> None:
        if pending.call.is_gone or pending.call.answered:
            return
        start_of = self._engine.reader.start_of
        for (told, stream), (first, verdict, _, error) in zip(pending.appended, answers, strict=True):
            if error is not None:
                _refuse(told, Refusal(code_of(error), str(error)))
            elif verdict is not Verdict.ACCEPTED and verdict is not Verdict.DUPLICATE:
                _refuse(told, Refusal(_VERDICTS.get(verdict, ErrorCode.INVALID_RECORD), _words(verdict)))
            else:
                told.base_offset = first
                told.log_start_offset = start_of(stream)
        self._send(pending)

    def _send(self, pending: Pending) -> None:
        call = pending.call
        if call.request.acks:
            call.answer(ProduceResponse(responses=pending.responses))
        elif any(told.error_code for topic in pending.responses for told in topic.partition_responses):
            call.hang_up()
        else:
            call.answer_bytes([])


def handlers(broker: Broker) -> Mapping[int, Handler]:
    return {0: Produce(broker)}


def _refused_as_a_whole(request: Any) -> ErrorCode | None:
    if request.acks not in (-1, 0, 1):
        return ErrorCode.INVALID_REQUIRED_ACKS
    return NO_TRANSACTIONS if request.transactional_id is not None else None


def _take(records: memoryview | None, rules: TopicRules, now: int, version: int) -> BatchHead | Refusal:
    """The head of a partition's batch, if it may be appended."""
    if records is None:
        return Refusal(ErrorCode.INVALID_RECORD, "no record batch where exactly one is expected")
    try:
        head = check_produced(records, 0, len(records), rules.max_message_bytes)
    except BadBatch as bad:
        return Refusal(_FAULTS[bad.fault], str(bad))
    attributes = head[5]  # by place: properties would be called for every batch
    if attributes & TRANSACTIONAL:
        return Refusal(NO_TRANSACTIONS, "transactions are not served yet")
    if version < ZSTD_FROM and attributes & COMPRESSION_MASK == ZSTD:
        return Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce v{ZSTD_FROM}")
    if rules.is_append_time:
        return set_append_time(records, 0, now)
    if head.max_timestamp > now + rules.after_max_ms or -1 < head.base_timestamp < now - rules.before_max_ms:
        low, high = now - rules.before_max_ms, now + rules.after_max_ms
        message = f"timestamps {head.base_timestamp} to {head.max_timestamp} are not within {low} to {high}"
        return Refusal(ErrorCode.INVALID_TIMESTAMP, message, by_record=True)
    return head


def _refuse(told: PartitionProduceResponse, refusal: Refusal) -> None:
    told.error_code = refusal.code
    told.error_message = refusal.message
    told.base_offset = told.log_append_time_ms = -1
    if refusal.by_record:
        told.record_errors = [BatchIndexAndErrorMessage(batch_index_error_message=refusal.message)]


def _words(verdict: Verdict) -> str:
    return verdict.name.lower().replace("_", " ")
