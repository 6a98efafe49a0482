"""When does a gathering of batches become an object? The window decides; it never acts, waits or looks at a clock.

Theory of operation. Every upload costs a request and a ledger entry, so it should carry much; every producer that has
sent all it may send without an answer stands still, so an answer should come soon. A window closes

    FULL    when its bytes reach `bytes_max`;
    OLD     when its first batch has waited `age_max`;
    EARLY   when waiting longer helps nobody.

Waiting helps if someone is about to send. Who is? The window learns it of each producer (a connection, in practice):

- its *limit*, the most requests it was ever seen to have unanswered: 1 for a client that asks and waits, up to 5 for
  Kafka's usual `max.in.flight`. A producer at its limit will send nothing before it is answered.
- whether it is *prompt*: whether it last sent again within the *patience* after an answer. The patience is half of what
  an upload takes now (as Pravega's rule takes the recent latency as the measure of a delay): for a producer that
  answers an answer faster than that, waiting is cheaper than missing it.

A prompt producer that was answered and is below its limit is *awaited*. When everyone who was awaited has come, or the
patience is over, the window closes early. Who comes later than that is not prompt any more; who came but stopped short
of its limit has that as its new limit. So experience that has become false costs one patience, once.

One early upload at a time: while one is under way, new arrivals gather (the way group commit works in databases). This
bounds the cost to one object per round trip of the store, however many slow producers trickle in; and it brings
producers into step, because those who arrived meanwhile and those who were just answered go together next time. FULL
and OLD are not held up by anything.

The numbers behind the choice are printed by `bench/window.py`.

How to drive it: `arrived` for each request, `flushed` when an upload's answers are out, `gone` when a connection ends;
and at the end of a turn of the event loop in which any of these happened (once, not per request, so that requests read
in one turn go together), and when the time of `due` comes, `decide`. When one of them names a reason: `close`.
"""

from dataclasses import dataclass
from enum import Enum


class Reason(Enum):
    """Why a window closes."""

    FULL = "full"
    OLD = "old"
    EARLY = "early"
    DRAIN = "drain"
    """The node is going down; the window did not ask for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowBounds:
    """How long and how much a window may gather. Times are in seconds."""

    bytes_max: int = 4 << 20
    age_max: float = 0.2
    early_uploads_max: int = 1
    """Early uploads under way at once. 0: never early, for whom requests are dearer than time."""

    def __post_init__(self) -> None:
        assert self.bytes_max > 0
        assert self.age_max > 0
        assert self.early_uploads_max >= 0


class Producer:
    """What a window knows of one producer. Whoever owns the connection keeps it, and keeps one per window."""

    __slots__ = ("answered_at", "limit", "prompt", "unanswered")

    def __init__(self) -> None:
        self.unanswered = 0
        self.limit = 1
        self.prompt = True
        self.answered_at: float | None = None
        """When it was last answered, if it has not sent anything since."""


class Upload:
    """A closed window: hand it back to `flushed` when its producers have their answers."""

    __slots__ = ("closed_at", "opened_at", "reason", "senders", "size")

    def __init__(self, reason: Reason, opened_at: float, closed_at: float, size: int, senders: list[Producer]) -> None:
        self.reason = reason
        self.opened_at = opened_at
        self.closed_at = closed_at
        self.size = size
        self.senders = senders


class Window:
    """The window that is open now, and what it learned from those before it."""

    __slots__ = ("_awaited", "_give_up_at", "bounds", "early_uploads", "opened_at", "patience", "senders", "size")

    PATIENCE_SHARE = 0.5
    """Of an upload's time. A quarter misses clients across a network, a whole one makes everyone wait for a leaver."""
    LATENCY_WEIGHT = 0.2

    def __init__(self, bounds: WindowBounds) -> None:
        self.bounds = bounds
        self.size = 0
        self.senders: list[Producer] = []
        self.opened_at: float | None = None
        self.early_uploads = 0
        self.patience = 0.0
        self._awaited: dict[Producer, None] = {}
        self._give_up_at = 0.0

    def arrived(self, producer: Producer | None, size: int, at: float) -> Reason | None:
        """A request with `size` bytes of batches; no producer means that nobody waits for an answer (acks=0).

        FULL must be followed by `close` before the next arrival, so a window holds less than `bytes_max` and one more
        request.
        """
        if self.opened_at is None:
            self.opened_at = at
        self.size += size
        if producer is not None:
            self.senders.append(producer)
            producer.unanswered = unanswered = producer.unanswered + 1
            if producer.answered_at is not None:
                producer.prompt = at - producer.answered_at <= self.patience
                producer.answered_at = None
            if unanswered >= producer.limit:
                producer.limit = unanswered
                if self._awaited:
                    self._awaited.pop(producer, None)
        return Reason.FULL if self.size >= self.bounds.bytes_max else None

    def decide(self, at: float) -> Reason | None:
        """Whether the window should close now, and why."""
        if self.opened_at is None:
            return None
        if at >= self.opened_at + self.bounds.age_max:
            return Reason.OLD
        if self.early_uploads >= self.bounds.early_uploads_max or not self.senders:
            return None
        if self._awaited:
            if at < self._give_up_at:
                return None
            self._give_up()
        return Reason.EARLY

    def due(self) -> float | None:
        """When to ask `decide` again if nothing happens before; None while nothing is gathered."""
        if self.opened_at is None:
            return None
        old_at = self.opened_at + self.bounds.age_max
        if self._awaited and self.senders and self.early_uploads < self.bounds.early_uploads_max:
            return min(old_at, self._give_up_at)
        return old_at

    def close(self, reason: Reason, at: float) -> Upload:
        """Everything gathered becomes an upload; the next arrival opens a new window."""
        assert self.opened_at is not None, "an empty window has nothing to upload"
        upload = Upload(reason, self.opened_at, at, self.size, self.senders)
        self.opened_at = None
        self.size = 0
        self.senders = []
        if reason is Reason.EARLY:
            self.early_uploads += 1
        return upload

    def flushed(self, upload: Upload, at: float, *, failed: bool = False) -> None:
        """The producers of an upload were answered. A failure teaches nothing about how long uploads take."""
        if upload.reason is Reason.EARLY:
            self.early_uploads -= 1
        if not failed:
            took = (at - upload.closed_at) * self.PATIENCE_SHARE
            self.patience += (took - self.patience) * (self.LATENCY_WEIGHT if self.patience else 1.0)
        awaited = self._awaited
        if not awaited:
            self._give_up_at = at + self.patience
        for producer in upload.senders:
            producer.unanswered -= 1
            producer.answered_at = at
            if producer.prompt and producer.unanswered < producer.limit:
                awaited[producer] = None

    def gone(self, producer: Producer) -> None:
        """A connection ended: nobody waits for it, and what it had under way may still be flushed."""
        producer.limit = 0
        producer.prompt = False
        self._awaited.pop(producer, None)

    def _give_up(self) -> None:
        for producer in self._awaited:
            if producer.unanswered:
                producer.limit = producer.unanswered
        self._awaited.clear()
