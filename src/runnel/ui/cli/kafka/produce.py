r"""Send lines as records to a topic.

Lines come from standard input or a file, one record each. For any Kafka cluster.

    echo hello | runnel produce greetings
    runnel produce orders --key-separator : < orders.txt
    runnel produce orders --json < records.jsonl      {"key": "k", "value": "v", "headers": [["name", "value"]]}
    runnel produce images --whole --file cat.png --key cat.png

Ends with 0 once every record is acknowledged. Sent idempotently unless --acks says less than all: a record that had to
be sent again is there once.
"""

import argparse
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from runnel.errors import Refused, Uncertain
from runnel.ui.cli.house import House
from runnel.ui.cli.kafka.connect import Cluster, add_cluster, cluster_from
from runnel.ui.cli.kafka.formats import FORMATS, Reading, Record, header_of, packed, separator_of
from runnel.ui.cli.kafka.problems import problem
from runnel.ui.cli.output import print_json
from runnel.ui.cli.progress import Progress

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

LINE_BYTES_MAX = 100 * 1024 * 1024
"""As much as a request may hold."""
READ_BYTES = 1 << 18
IDLE_SECONDS = 0.2
GIVE_UP_SECONDS = 5.0
"""How long an interrupted command waits for what is on its way."""


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="the name of the topic")
    parser.add_argument("--file", metavar="FILE", help="read from this file; left out, from standard input")
    parser.add_argument("--whole", action="store_true", help="all that is read is the value of one record")
    parser.add_argument("--format", choices=FORMATS, default="text", help="how values are written; text unless said")
    parser.add_argument("--key-format", choices=FORMATS, default="text", help="how keys are written; text unless said")
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument("--key-separator", "-K", metavar="TEXT", help=r"a line is a key, this, and a value; \t is a tab")
    keys.add_argument("--key", metavar="KEY", help="the key of every record that brings none")
    parser.add_argument(
        "--header", "-H", metavar="NAME=VALUE", action="append", default=[], help="for every record; may be repeated"
    )
    parser.add_argument("--null", metavar="WORD", help="this word stands for no value, or no key")
    parser.add_argument("--partition", type=int, default=-1, metavar="N", help="left out: by key, or any")
    parser.add_argument("--acks", choices=("0", "1", "all"), default="all", help="what is waited for; all unless said")
    parser.add_argument(
        "--compression", choices=("none", "gzip", "snappy", "lz4", "zstd"), default="none", help="none unless said"
    )
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS", help="how long a record may go unacknowledged; 60"
    )
    add_cluster(parser, in_json="a line is one JSON object, a record; the account at the end is JSON too")


def run(args: argparse.Namespace, _house: House) -> int:
    reading = Reading(
        format=args.format,
        key_format=args.key_format,
        key_separator=None if args.key_separator is None else separator_of(args.key_separator),
        key=None if args.key is None else packed(args.key.encode(errors="surrogateescape"), args.key_format, "key"),
        headers=tuple(header_of(text) for text in args.header),
        null=None if args.null is None else args.null.encode(),
    )
    if args.timeout <= 0:
        raise Refused(f"--timeout {args.timeout}: it is longer than nothing")
    if args.whole and (args.json or reading.key_separator is not None):
        raise Refused("--whole sends all that is read as one value: leave out --json and --key-separator")
    if args.json and reading.key_separator is not None:
        raise Refused("--json takes the key from each object: leave out --key-separator")
    cluster = cluster_from(args)
    with _source(args.file) as source:
        if source.isatty():
            print(f"a line is a record for '{args.topic}'; Ctrl-D ends", file=sys.stderr)
        return _send(args, cluster, source, reading)


def _source(file: str | None) -> Any:
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False) if file is None else Path(file).open("rb")
    except OSError as error:
        name = "standard input" if file is None else f"file '{file}'"
        raise Refused(f"{name} cannot be read: {error.strerror}") from None


def _send(args: argparse.Namespace, cluster: Cluster, source: BinaryIO, reading: Reading) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    producer = cluster.producer(
        acks=args.acks,
        enable_idempotence=args.acks == "all",
        compression_type=args.compression,
        linger_ms=5,
        batch_size=1_000_000,
        message_max_bytes=LINE_BYTES_MAX + 4096,
        message_timeout_ms=int(args.timeout * 1000),
        queue_buffering_max_messages=200_000,
        queue_buffering_max_kbytes=131_072,
    )
    sending = _Sending(args, cluster, producer)
    try:
        for number, record in _records(source, reading, sending.look, whole=args.whole, as_json=args.json):
            sending.send(number, record)
        sending.finish()
    except _Stopped:
        sending.finish()
    except Refused as error:
        sending.finish()
        raise Refused(f"{error}; {sending.acknowledged:,} records before it were sent") from None
    except KeyboardInterrupt:
        sending.finish(GIVE_UP_SECONDS)
        raise
    finally:
        producer.purge()
    return sending.report()


def _records(
    source: BinaryIO, reading: Reading, idle: Callable[[], object], *, whole: bool, as_json: bool
) -> Iterator[tuple[int, Record]]:
    """Each record with the number of its line."""
    if whole:
        content = source.read(LINE_BYTES_MAX + 1)
        if len(content) > LINE_BYTES_MAX:
            raise Refused(f"more than {LINE_BYTES_MAX:,} bytes for one record")
        yield 1, Record(key=reading.key, value=packed(content, reading.format, "value"), headers=reading.headers)
        return
    made = reading.object if as_json else reading.record
    for number, line in enumerate(_lines(source.fileno(), idle), 1):
        if as_json and not line.strip():
            continue
        try:
            yield number, made(line)
        except Refused as error:
            raise Refused(f"line {number:,}: {error}") from None


def _lines(file: int, idle: Callable[[], object]) -> Iterator[bytes]:
    """Lines without their ends, each as soon as it has come; `idle` is called while there is none."""
    begun: list[bytes] = []
    size = 0
    while True:
        while not select.select([file], [], [], IDLE_SECONDS)[0]:
            idle()
        chunk = os.read(file, READ_BYTES)
        first, *more = chunk.split(b"\n")
        begun.append(first)
        size += len(first)
        if size > LINE_BYTES_MAX:
            raise Refused(f"a line is longer than {LINE_BYTES_MAX:,} bytes")
        if more:
            yield b"".join(begun)
            yield from more[:-1]
            begun, size = [more[-1]], len(more[-1])
        if not chunk:
            if size:
                yield b"".join(begun)
            return


class _Stopped(Exception):
    """A record failed: nothing more is read."""


class _Sending:
    """Hands records to librdkafka and counts what became of them."""

    def __init__(self, args: argparse.Namespace, cluster: Cluster, producer: "Producer") -> None:
        from confluent_kafka import KafkaException

        self._kafka_exception = KafkaException
        self._args, self._cluster, self._producer = args, cluster, producer
        cluster.waits = True
        total = Path(args.file).stat().st_size if args.file else 0
        self._progress = Progress(total=total, quiet=args.json)
        self.sent = self.acknowledged = self.failed = self._size = 0
        self._first_failure: tuple[int, KafkaError] | None = None
        self._places: dict[int, list[int]] = {}
        """Of each partition the first and the last offset given out, and how many."""

    def send(self, number: int, record: Record) -> None:
        more: dict[str, Any] = {"timestamp": record.timestamp} if record.timestamp else {}
        partition = record.partition if record.partition >= 0 else self._args.partition
        while True:
            try:
                self._producer.produce(
                    self._args.topic,
                    record.value,
                    record.key,
                    partition=partition,
                    headers=list(record.headers),
                    on_delivery=partial(self._answered, number),
                    **more,
                )
                break
            except BufferError:
                self._producer.poll(0.05)
                self.look()
            except self._kafka_exception as error:
                where = f"line {number:,} for topic '{self._args.topic}'"
                raise problem(self._cluster, error.args[0], where) from None
        self.sent += 1
        self._size += len(record.value or b"") + len(record.key or b"")
        if not self.sent % 256:
            self.look()

    def _answered(self, number: int, error: "KafkaError | None", message: "Message") -> None:
        if error is not None:
            self.failed += 1
            if self._first_failure is None:
                self._first_failure = (number, error)
            return
        self.acknowledged += 1
        self._cluster.answered()
        offset, partition = message.offset(), message.partition()
        if offset is None or partition is None:
            return
        place = self._places.setdefault(partition, [offset, offset, 0])
        place[0], place[1], place[2] = min(place[0], offset), max(place[1], offset), place[2] + 1

    def look(self) -> None:
        """Hear what became of records while there are no new ones."""
        self._producer.poll(0)
        self._progress.at(self._size, self.sent, self._size)
        if self.failed:
            raise _Stopped

    def finish(self, patience: float | None = None) -> None:
        """Wait for all answers, or for so long; librdkafka itself gives up on a record in time."""
        deadline = self._progress.seconds() + (patience if patience is not None else self._args.timeout + 10)
        while self._producer.flush(0.2) and self._progress.seconds() < deadline:
            self._progress.at(self._size, self.acknowledged, self._size)
        self._progress.clear()

    def report(self) -> int:
        topic = self._args.topic
        lost = self.sent - self.acknowledged
        if lost:
            number, error = self._first_failure or (0, None)
            where = f"{lost:,} of {self.sent:,} records for topic '{topic}' failed, first line {number:,}"
            if error is None:
                raise Uncertain(f"{lost:,} of {self.sent:,} records for topic '{topic}' were never answered")
            raise problem(self._cluster, error, where)
        rate = self._size / 1e6 / self._progress.seconds()
        if self._args.json:
            places = [
                {"partition": partition, "records": count, "first": first, "last": last}
                for partition, (first, last, count) in sorted(self._places.items())
            ]
            print_json({"topic": topic, "records": self.sent, "bytes": self._size, "mb_s": rate, "partitions": places})
        else:
            word = "record" if self.sent == 1 else "records"
            how = "sent without asking for an answer" if self._args.acks == "0" else "acknowledged"
            print(f"{self.sent:,} {word} for '{topic}' {how}, {rate:,.1f} MB/s", file=sys.stderr)
        return 0
