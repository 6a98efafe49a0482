r"""Print the records of topics.

Reads what is there and ends; with --follow it goes on with what comes. For any Kafka cluster.

    runnel consume orders                       everything
    runnel consume orders --follow --from end   only what comes from now on
    runnel consume orders --from -10            the last ten of each partition
    runnel consume orders --from 15m --until 5m
    runnel consume orders --json -n 1           one object a record: what 'runnel produce --json' takes
    runnel consume orders --group billing       as a member: goes on where the group is, and says how far it came

Places are beginning, end, an offset, -N (so many before the end), 15m (ago), 2026-11-19T20:00, or @MILLISECONDS.
"""

import argparse
import re
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from runnel.errors import NotThere, Refused
from runnel.ui.cli.house import House
from runnel.ui.cli.kafka.connect import Cluster, add_cluster, cluster_from
from runnel.ui.cli.kafka.formats import FORMATS, Writing, separator_of
from runnel.ui.cli.kafka.offsets import Partition, nexts, offsets_at, partitions_of
from runnel.ui.cli.kafka.places import BEGINNING, END, Place, place_of
from runnel.ui.cli.kafka.problems import kindly, problem
from runnel.ui.cli.progress import Progress
from runnel.world.clock import SystemClock

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

BATCH = 1000
BEAT_SECONDS = 0.2
"""How long one call may keep Ctrl-C waiting."""
SILENCE_SECONDS = 30.0
"""A cluster that says nothing for so long while there is something to read is thought to be away."""
PARTITIONS_MAX = 1_000_000


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", metavar="TOPIC", nargs="+", help="the names of the topics")
    parser.add_argument("--from", dest="start", metavar="PLACE", help="where to start; beginning unless said")
    parser.add_argument("--until", metavar="PLACE", help="where to stop; at the present end unless said")
    parser.add_argument("--follow", "-f", action="store_true", help="go on with what comes, until Ctrl-C")
    parser.add_argument("-n", "--count", type=int, metavar="N", help="stop after so many records")
    parser.add_argument("--partition", "-p", metavar="LIST", help="only these: 0 or 0,3-5; left out, all")
    parser.add_argument(
        "--group", "-g", metavar="GROUP", help="read as a member of this group, and keep there how far it came"
    )
    parser.add_argument("--format", choices=FORMATS, default="text", help="how values are printed; text unless said")
    parser.add_argument("--key-format", choices=FORMATS, default="text", help="how keys are printed; text unless said")
    parser.add_argument("--keys", "-k", action="store_true", help="print keys")
    parser.add_argument("--headers", "-H", action="store_true", help="print headers")
    parser.add_argument("--timestamps", "-t", action="store_true", help="print timestamps")
    parser.add_argument("--places", action="store_true", help="print topic, partition and offset")
    parser.add_argument("--separator", default=r"\t", metavar="TEXT", help="between what is printed; a tab unless said")
    parser.add_argument("--end", default=r"\n", metavar="TEXT", help="after a record; a line's end unless said")
    parser.add_argument("--null", default="null", metavar="WORD", help="stands for no value; null unless said")
    parser.add_argument(
        "--uncommitted", action="store_true", help="also records of transactions that are open or were given up"
    )
    add_cluster(parser, in_json="print each record as one JSON object on a line")


def run(args: argparse.Namespace, _house: House) -> int:
    now = SystemClock().now_ms()
    start = None if args.start is None else place_of(args.start, now)
    until = None if args.until is None else place_of(args.until, now)
    wanted = None if args.partition is None else numbers_of(args.partition)
    if args.count is not None and args.count < 1:
        raise Refused(f"-n {args.count}: at least one record")
    if args.follow and until is not None:
        raise Refused("--follow has no end: leave out --until")
    if args.group is not None:
        if wanted is not None or until is not None:
            raise Refused(
                "a group chooses its members' partitions itself: leave out --partition and --until, or --group"
            )
        if start not in (None, BEGINNING, END):
            raise Refused(
                "with --group, --from says where to start what the group has not read, beginning or end: "
                "move the group with 'runnel group reset'"
            )
    writing = Writing(
        format=args.format,
        key_format=args.key_format,
        timestamps=args.timestamps,
        places=args.places,
        headers=args.headers,
        keys=args.keys,
        separator=separator_of(args.separator),
        end=separator_of(args.end),
        null=args.null.encode(),
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    cluster = cluster_from(args)
    reading = _Reading(args, cluster, writing.printer(as_json=args.json))
    if args.group is None:
        reading.read(wanted, start or BEGINNING, until)
    else:
        reading.read_as_member(start or BEGINNING)
    return 0


def numbers_of(text: str) -> list[int]:
    """0,3-5 as 0, 3, 4, 5."""
    found: list[int] = []
    for part in text.split(","):
        span = re.fullmatch(r"\s*(\d{1,7})(?:-(\d{1,7}))?\s*", part, re.ASCII)
        if span is None or int(span[2] or span[1]) < int(span[1]):
            raise Refused(f"--partition {text}: write numbers and spans of them, such as 0,3-5")
        found += range(int(span[1]), int(span[2] or span[1]) + 1)
        if len(found) > PARTITIONS_MAX:
            raise Refused(f"--partition {text}: too many")
    return list(dict.fromkeys(found))


class _Reading:
    """Prints records until it has come to where it shall stop."""

    def __init__(self, args: argparse.Namespace, cluster: Cluster, printed: Callable[[Any], bytes]) -> None:
        self._args, self._cluster, self._printed = args, cluster, printed
        cluster.waits = True
        self._out = sys.stdout.buffer
        # Where records themselves go to a terminal, a second moving line would only disturb.
        self._progress = Progress(total=args.count or 0, quiet=args.json or sys.stdout.isatty())
        self._records = self._size = 0

    def read(self, wanted: list[int] | None, start: Place, until: Place | None) -> None:
        """From the same place in each partition, as nobody's member."""
        from confluent_kafka import TopicPartition

        admin = self._cluster.admin()
        partitions = partitions_of(self._cluster, admin, list(dict.fromkeys(self._args.topics)))
        if wanted is not None:
            partitions = self._chosen(partitions, wanted)
        committed = not self._args.uncommitted
        begin = offsets_at(self._cluster, admin, partitions, start, committed=committed)
        if until is not None:
            ends = offsets_at(self._cluster, admin, partitions, until, committed=committed)
        else:
            ends = nexts(self._cluster, admin, partitions, committed=committed)
        del admin
        if not self._args.follow:
            begin = {each: offset for each, offset in begin.items() if offset < ends[each]}
        if not begin:
            return
        # librdkafka wants a group's name even of those who belong to none.
        consumer = self._consumer(group_id="runnel-consume", enable_auto_commit=False)
        try:
            with kindly(self._cluster):
                consumer.assign([TopicPartition(each.topic, each.number, at) for each, at in begin.items()])
            self._pump(consumer, _Endless() if self._args.follow else _Ends({each: ends[each] for each in begin}))
        finally:
            self._close(consumer)

    def read_as_member(self, start: Place) -> None:
        """Whatever the group gives this member, from where the group is."""
        # Asking for them first tells a wrong name; a member would wait for the topic to be made.
        partitions_of(self._cluster, self._cluster.admin(), list(dict.fromkeys(self._args.topics)))
        consumer = self._consumer(
            group_id=self._args.group,
            enable_auto_offset_store=False,
            auto_commit_interval_ms=1000,
            auto_offset_reset="earliest" if start == BEGINNING else "latest",
        )
        ends = _MemberEnds(consumer)
        try:
            with kindly(self._cluster):
                consumer.subscribe(self._args.topics, on_assign=ends.assigned, on_revoke=ends.revoked)
            self._pump(consumer, _Endless() if self._args.follow else ends, stored=True)
        finally:
            self._close(consumer)

    def _consumer(self, **properties: Any) -> "Consumer":
        return self._cluster.consumer(
            enable_partition_eof=True,
            isolation_level="read_uncommitted" if self._args.uncommitted else "read_committed",
            fetch_message_max_bytes=8 * 1024 * 1024,
            queued_max_messages_kbytes=65_536,
            **properties,
        )

    def _chosen(self, partitions: list[Partition], wanted: list[int]) -> list[Partition]:
        for topic in dict.fromkeys(self._args.topics):
            there = {each.number for each in partitions if each.topic == topic}
            missing = [number for number in wanted if number not in there]
            if missing:
                raise NotThere(f"topic '{topic}' has no partition {missing[0]}, its last is {max(there)}")
        return [each for each in partitions if each.number in set(wanted)]

    def _pump(self, consumer: "Consumer", ends: "_Endless", *, stored: bool = False) -> None:
        """Print until the ends are reached."""
        from confluent_kafka import KafkaError

        clock = SystemClock()
        heard = clock.monotonic()
        while True:
            left = BATCH if self._args.count is None else min(BATCH, self._args.count - self._records)
            with kindly(self._cluster):
                messages = consumer.consume(left, BEAT_SECONDS)
            lines = []
            done = False
            for message in messages:
                error = message.error()
                if error is None:
                    if not ends.before(message):
                        continue
                    lines.append(self._line(message))
                    self._size += len(message.value() or b"")
                    if stored:
                        consumer.store_offsets(message)
                elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  librdkafka's own codes begin like this
                    if error.retriable() or error.code() == KafkaError._MAX_POLL_EXCEEDED:  # noqa: SLF001  as above
                        continue
                    raise problem(self._cluster, error, f"reading '{message.topic() or self._args.topics[0]}'")
                done = ends.reached_by(message) or done
            if messages:
                heard = clock.monotonic()
                self._cluster.answered()
                self._records += len(lines)
                self._out.write(b"".join(lines))
                self._out.flush()
                self._progress.at(self._records, self._records, self._size)
            elif self._cluster.said and clock.monotonic() - heard > SILENCE_SECONDS and not self._args.follow:
                raise problem(self._cluster, KafkaError(KafkaError._ALL_BROKERS_DOWN))  # noqa: SLF001  as above
            if done or self._records == self._args.count:
                return

    def _line(self, message: "Message") -> bytes:
        try:
            return self._printed(message)
        except Refused as error:
            place = f"{message.topic()}[{message.partition()}]@{message.offset()}"
            raise Refused(f"record {place}: {error}") from None

    def _close(self, consumer: "Consumer") -> None:
        self._progress.clear()
        consumer.close()


class _Endless:
    """Where reading stops: never."""

    def before(self, _message: "Message") -> bool:
        """Whether this record belongs to what is read."""
        return True

    def reached_by(self, _message: "Message") -> bool:
        """Whether nothing is left after this record, or after this news that a partition has no more for now."""
        return False


class _Ends(_Endless):
    """Where every partition has come to its own end, as it was when reading began."""

    def __init__(self, ends: dict[Partition, int]) -> None:
        self._left = ends

    def before(self, message: "Message") -> bool:
        return (message.offset() or 0) < self._left.get(Partition(message.topic() or "", message.partition() or 0), 0)

    def reached_by(self, message: "Message") -> bool:
        where = Partition(message.topic() or "", message.partition() or 0)
        end = self._left.get(where)
        # The news of an end comes with the offset that is given out next; a record with its own.
        if end is not None and (message.offset() or 0) + (message.error() is None) >= end:
            del self._left[where]
        return not self._left


class _MemberEnds(_Endless):
    """Where every partition that the group gave this member has no more for now."""

    def __init__(self, consumer: "Consumer") -> None:
        self._consumer = consumer
        self._known = False
        self._left: set[Partition] = set()

    def assigned(self, _consumer: "Consumer", partitions: list[Any]) -> None:
        self._known = True
        self._left |= {Partition(each.topic, each.partition) for each in partitions}

    def revoked(self, _consumer: "Consumer", partitions: list[Any]) -> None:
        self._left -= {Partition(each.topic, each.partition) for each in partitions}

    def reached_by(self, message: "Message") -> bool:
        where = Partition(message.topic() or "", message.partition() or 0)
        if message.error() is None:
            self._left.add(where)
        else:
            self._left.discard(where)
        return self._known and not self._left
