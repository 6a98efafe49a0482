"""One group in the hands of this broker: its machine, the requests that wait for it, and how its changes are entered.

Events go to the machine one after another. While the group is being loaded, or a change of it is on its way into the
ledger, events wait; then all of them are taken at once, so that a busy group makes larger entries, not more of them.
Answers leave when what they tell is durable. If that fails, the group is dropped and everyone who waits is sent to look
for the coordinator again: whatever the ledger has then is the truth.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from runnel.broker.alarms import Alarms
from runnel.broker.call import Call
from runnel.broker.groups.classic import ClassicGroup
from runnel.broker.groups.consumer import ConsumerGroup
from runnel.broker.groups.kept import encode_kept
from runnel.broker.groups.machine import Event, Machine
from runnel.broker.groups.mixed import ClassicFace, downgraded, upgraded
from runnel.broker.groups.topics import TopicsSeen
from runnel.broker.problems import failed_response
from runnel.codec.declare import Message
from runnel.codec.errors import ErrorCode
from runnel.errors import Fenced, RunnelError, Unavailable, Uncertain
from runnel.metadata.entry import Update
from runnel.metadata.follower import Outcome
from runnel.metadata.proposer import Proposer
from runnel.metadata.updates import EnterGeneration
from runnel.model import ShardId
from runnel.world.clock import Clock
from runnel.world.telemetry import get_log

log = get_log("groups")

WAITING_MAX = 100_000
"""Requests that wait for one group to be loaded or entered."""


class Asked(NamedTuple):
    """An event, and who waits for its answer. With a kind, it is for groups of that kind; `mismatch` is for others."""

    call: Call | None
    event: Event
    kind: str | None = None
    mismatch: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID
    joins: bool = False
    """Whether it may make a group of consumers one of its own kind."""


class Held:
    """See the module. `machine` is None until the group is loaded."""

    def __init__(
        self,
        name: str,
        shard: ShardId,
        owner: bytes,
        *,
        clock: Clock,
        alarms: Alarms,
        proposer: Proposer,
        make: Callable[[str, int], Machine],
        topics: Callable[[], TopicsSeen],
        release: Callable[["Held"], None],
    ) -> None:
        """`make` gives an empty machine of a kind, in a generation."""
        self.name = name
        self.shard = shard
        self.machine: Machine | None = None
        self.dropped = False
        self._owner = owner
        self._clock = clock
        self._alarms = alarms
        self._proposer = proposer
        self._make = make
        self._topics = topics
        self._release = release
        self._busy = True
        self._generation = 0
        """What the ledger has."""
        self._inbox: list[Asked] = []
        self._kept_back: list[tuple[Any, Message]] = []
        self._wanted: list[asyncio.Future[Machine]] = []
        self._alarm_at = math.inf
        self._alarm: int | None = None

    def loaded(self, machine: Machine, generation: int) -> None:
        """Here is the group, as the ledger has it in this generation."""
        self.machine = machine
        self._generation = generation
        self._busy = False
        for wanted in self._wanted:
            if not wanted.done():
                wanted.set_result(machine)
        self._wanted = []
        self._go_on()

    async def ready(self) -> Machine:
        """The machine, when it is loaded."""
        if self.machine is None:
            wanted: asyncio.Future[Machine] = asyncio.get_running_loop().create_future()
            self._wanted.append(wanted)
            return await wanted
        return self.machine

    def take(self, asked: "Asked") -> None:
        """Let the machine hear of an event, now or when its turn comes."""
        call = asked.call
        if self.dropped:
            _refuse(call, ErrorCode.NOT_COORDINATOR)
        elif not self._busy:
            self._act([asked])
        elif len(self._inbox) >= WAITING_MAX:
            _refuse(call, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            self._inbox.append(asked)

    def drop(self, code: ErrorCode) -> None:
        """Forget the group; everyone who waits for it is answered with `code`."""
        if self.dropped:
            return
        self.dropped = True
        self._quiet()
        self._release(self)
        for wanted in self._wanted:
            if not wanted.done():
                wanted.set_exception(Unavailable(f"group '{self.name}' could not be loaded: {code.name.lower()}"))
        self._wanted = []
        waiting: list[Any] = [to for to, _ in self._kept_back]
        waiting += [asked.call for asked in self._inbox]
        if self.machine is not None:
            waiting += self.machine.waiting()
            waiting += [to for to, _ in self.machine.answers]
        self._kept_back = []
        self._inbox = []
        for call in waiting:
            _refuse(call, code)

    # --- events

    def _act(self, events: "list[Asked]") -> None:
        at = self._clock.monotonic()
        for place, (call, event, kind, mismatch, joins) in enumerate(events):
            try:
                machine = self._as(kind, at, joins=joins)
                if machine is None:
                    _refuse(call, mismatch)
                else:
                    event(machine, at)
            except Exception as error:  # noqa: BLE001  what remains of the group cannot be trusted: load it anew
                log.crash("group_failed", error, group=self.name)
                self._inbox = [*events[place + 1 :], *self._inbox]
                _refuse(call, ErrorCode.UNKNOWN_SERVER_ERROR)
                self.drop(ErrorCode.NOT_COORDINATOR)
                return
        machine = self.machine
        assert machine is not None, f"group '{self.name}' is asked before it is loaded"
        if isinstance(machine, ConsumerGroup):
            machine = self.machine = downgraded(machine, at) or machine
        answers, machine.answers = machine.answers, []
        if not machine.dirty:
            self._send(answers)
            self._go_on()
            return
        machine.dirty = False
        self._busy = True
        self._kept_back = answers
        kept = encode_kept(machine.kept())
        update = EnterGeneration(
            self.name, machine.kind, self._generation, machine.generation, self._owner, kept, empty=not machine.members
        )
        self._generation = machine.generation
        self.enter(update, self._entered)

    def _as(self, kind: str | None, at: float, *, joins: bool) -> Any:
        """The machine as one that takes requests of a kind; None if it cannot.

        A group without members takes any kind; one of consumers takes both, see mixed.py.
        """
        machine = self.machine
        assert machine is not None, f"group '{self.name}' is asked before it is loaded"
        if kind is None or machine.kind == kind:
            return machine
        if machine.is_idle and not machine.dirty and not machine.answers:
            self.machine = self._make(kind, machine.generation)
        elif isinstance(machine, ConsumerGroup):
            return ClassicFace(machine, self._topics())
        elif isinstance(machine, ClassicGroup) and joins:
            self.machine = upgraded(machine, self._topics(), at) or machine
            return self.machine if self.machine is not machine else None
        else:
            return None
        return self.machine

    def _go_on(self) -> None:
        if self._inbox and not self._busy:
            inbox, self._inbox = self._inbox, []
            self._act(inbox)
        elif not self._busy and not self.dropped:
            assert self.machine is not None, "only a group that is loaded goes on"
            if self.machine.is_idle:
                self.dropped = True
                self._quiet()
                self._release(self)
            else:
                self._set_alarm(self.machine.due)

    def _send(self, answers: list[tuple[Any, Message]]) -> None:
        for call, response in answers:
            call.answer(response)

    # --- the ledger

    def enter(self, update: Update, told: Callable[[ErrorCode | None], None]) -> None:
        """Propose a change of this group; `told` hears once what came of it. Changes keep their order."""

        def done(outcome: Outcome) -> None:
            error: Any = outcome
            if not isinstance(outcome, RunnelError):
                error = outcome.results[0] if outcome.results else None
            if isinstance(error, RunnelError):
                log.info("group_not_entered", group=self.name, error=str(error))
                told(code_of(error))
            else:
                told(None)

        try:
            self._proposer.submit(self.shard, [update], done)
        except RunnelError as error:
            told(code_of(error))

    def _entered(self, code: ErrorCode | None) -> None:
        if self.dropped:
            return
        if code is not None:
            self.drop(code)
            return
        self._busy = False
        answers, self._kept_back = self._kept_back, []
        self._send(answers)
        self._go_on()

    # --- time

    def _set_alarm(self, due: float) -> None:
        """One alarm a group. Heartbeats only move deadlines back: then it rings early, once, and is set anew."""
        if self._alarm is not None:
            if self._alarm_at <= due:
                return
            self._quiet()
        if due < math.inf:
            self._alarm_at = due
            self._alarm = self._alarms.set(max(0.0, due - self._clock.monotonic()), self._ring)

    def _ring(self) -> None:
        self._alarm = None
        if not self.dropped:
            self.take(Asked(None, lambda machine, at: machine.tick(at)))

    def _quiet(self) -> None:
        if self._alarm is not None:
            self._alarms.cancel(self._alarm, self._ring)
            self._alarm = None


def code_of(error: RunnelError) -> ErrorCode:
    """What a member is told when its group could not be loaded or entered: mostly, to look for it again."""
    if isinstance(error, Fenced):
        return ErrorCode.NOT_COORDINATOR
    if isinstance(error, Unavailable | Uncertain):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.UNKNOWN_SERVER_ERROR


def _refuse(call: Call | None, code: ErrorCode) -> None:
    if call is None or call.answered:
        return
    response = failed_response(call.api_key, call.request, code)
    assert response is not None, f"API {call.api_key} has no words for an error"
    call.answer(response)
