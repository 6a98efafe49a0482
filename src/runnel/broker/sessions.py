"""Fetch sessions: what a client fetches is remembered, so that it sends only what changes and hears only what is new.

    (id 0, epoch 0)     a full request: all partitions are named; a session may be made of it
    (id 0, epoch -1)    a full request of a client without sessions
    (id n, epoch 0/-1)  the same, and session n ends
    (id n, epoch e)     an incremental request: partitions are added, changed and forgotten; e counts up by one

An incremental answer holds the partitions with records, with errors, or with a new end or beginning (KIP-227). There
are at most `sessions_max` sessions with at most `session_partitions_max` partitions between them: a session that was not
used for a while makes room, and where none does, the client is served without one.

Pure: times come in.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from runnel.codec.errors import ErrorCode
from runnel.codec.messages.fetch import FetchRequest, PartitionData
from runnel.model import StreamId

FULL, WITHOUT = 0, -1
EPOCH_MAX = (1 << 31) - 1
EVICTABLE_AFTER_S = 120.0
"""A session that was used within this time is not thrown out (min.incremental.fetch.session.eviction.ms)."""

Key = tuple[str | bytes, int]


class Wanted:
    """One partition that a client fetches, and what it was last told of it."""

    __slots__ = ("epoch", "index", "offset", "size_max", "stream", "told_end", "told_start", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: bytes, index: int) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.offset = 0
        self.size_max = 0
        self.epoch = -1
        """The leader epoch that the client believes in."""
        self.stream: StreamId | None = None
        """Once it was looked up."""
        self.told_end = self.told_start = -1

    def is_news(self, data: PartitionData) -> bool:
        """Whether an incremental answer must hold this; notes what the client is told."""
        news = bool(data.records or data.error_code or data.preferred_read_replica >= 0)
        news = news or data.high_watermark != self.told_end or data.log_start_offset != self.told_start
        # After an error the partition is told again, whatever it says.
        self.told_end = -1 if data.error_code else data.high_watermark
        self.told_start = data.log_start_offset
        return news


class Session:
    """What one client fetches, by topic and partition, in the order in which it is served."""

    __slots__ = ("by_id", "epoch", "id", "used_at", "wanted")

    def __init__(self, number: int, *, by_id: bool, at: float) -> None:
        self.id = number
        self.by_id = by_id
        self.epoch = 1
        """That of the next request."""
        self.wanted: dict[Key, Wanted] = {}
        self.used_at = at

    def to_the_end(self, wanted: Wanted) -> None:
        """Whoever got something stands behind the others next time."""
        key = _key(wanted, by_id=self.by_id)
        if self.wanted.pop(key, None) is not None:
            self.wanted[key] = wanted


class Opened(NamedTuple):
    """What a request is about: partitions, and the session that they belong to, new or known; or what is wrong."""

    wanted: Sequence[Wanted] = ()
    session: Session | None = None
    is_full: bool = True
    error: ErrorCode = ErrorCode.NONE


class Sessions:
    """All sessions of one broker. `draw` gives numbers by luck."""

    def __init__(self, sessions_max: int, partitions_max: int, draw: Callable[[], int]) -> None:
        self._sessions_max = sessions_max
        self._partitions_max = partitions_max
        self._draw = draw
        self._sessions: dict[int, Session] = {}
        """The one least lately used comes first."""
        self.partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: FetchRequest, *, by_id: bool, at: float) -> Opened:
        """Which partitions a request means."""
        number, epoch = request.session_id, request.session_epoch
        if epoch in (FULL, WITHOUT):
            self._end(number)
            wanted = _all_of(request, by_id=by_id)
            session = self._begin(wanted, by_id=by_id, at=at) if epoch == FULL else None
            return Opened(list(wanted.values()), session)
        session = self._sessions.get(number)
        if session is None:
            return Opened(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return Opened(error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            return Opened(error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        before = len(session.wanted)
        _change(session, request)
        self.partitions += len(session.wanted) - before
        if not session.wanted:
            self._end(number)
            return Opened()
        if self.partitions > self._partitions_max:
            self._end(number)  # it begins anew with a full request, and is served without a session
            return Opened(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        session.used_at = at
        self._sessions[number] = self._sessions.pop(number)
        return Opened(list(session.wanted.values()), session, is_full=False)

    def _begin(self, wanted: dict[Key, Wanted], *, by_id: bool, at: float) -> Session | None:
        if not wanted or not self._make_room(len(wanted), at):
            return None
        number = 0
        while number == 0 or number in self._sessions:
            number = self._draw()
        session = self._sessions[number] = Session(number, by_id=by_id, at=at)
        session.wanted = wanted
        self.partitions += len(wanted)
        return session

    def _make_room(self, partitions: int, at: float) -> bool:
        while len(self._sessions) >= self._sessions_max or self.partitions + partitions > self._partitions_max:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or at - oldest.used_at < EVICTABLE_AFTER_S:
                return False
            self._end(oldest.id)
        return True

    def _end(self, number: int) -> None:
        session = self._sessions.pop(number, None)
        if session is not None:
            self.partitions -= len(session.wanted)


def _key(wanted: Wanted, *, by_id: bool) -> Key:
    return (wanted.topic_id if by_id else wanted.topic), wanted.index


def _all_of(request: FetchRequest, *, by_id: bool) -> dict[Key, Wanted]:
    """The partitions that a request names; one that stands twice counts as it stands last."""
    found: dict[Key, Wanted] = {}
    _take_in(found, request, by_id=by_id)
    return found


def _take_in(known: dict[Key, Wanted], request: FetchRequest, *, by_id: bool) -> None:
    for topic in request.topics:
        name: str | bytes = topic.topic_id if by_id else topic.topic
        for each in topic.partitions:
            key = (name, each.partition)
            wanted = known.get(key)
            if wanted is None:
                wanted = known[key] = Wanted(topic.topic, topic.topic_id, each.partition)
            wanted.offset = each.fetch_offset
            wanted.size_max = each.partition_max_bytes
            wanted.epoch = each.current_leader_epoch


def _change(session: Session, request: FetchRequest) -> None:
    _take_in(session.wanted, request, by_id=session.by_id)
    for key in _forgotten(request, by_id=session.by_id):
        session.wanted.pop(key, None)


def _forgotten(request: FetchRequest, *, by_id: bool) -> Iterable[Key]:
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            yield (topic.topic_id if by_id else topic.topic), index
