"""Subscriptions come and go, wake, are claimed, acknowledged and released. They live where their ids hash to."""

from typing import TYPE_CHECKING

import msgspec

from runnel.errors import AlreadyThere, Fenced, NotThere, Refused
from runnel.metadata.subscriptions import Link, Subscription

if TYPE_CHECKING:
    from runnel.metadata.state import ShardState


class AlreadyClaimed(Fenced):
    """Somebody works on it."""

    def __init__(self, holder: str, generation: int) -> None:
        super().__init__(f"'{holder}' works on generation {generation}")
        self.holder = holder
        self.generation = generation


def known(state: "ShardState", name: str) -> Subscription:
    subscription = state.subscriptions.get(name)
    if subscription is None:
        raise NotThere(f"subscription '{name}' does not exist")
    return subscription


def current(state: "ShardState", name: str, generation: int, wake: str) -> Subscription:
    """The subscription, if that is still its wake."""
    subscription = known(state, name)
    if not wake or (subscription.generation, subscription.wake) != (generation, wake):
        raise Fenced(f"subscription '{name}' is at generation {subscription.generation}, that wake is over")
    return subscription


class PutSubscription(msgspec.Struct, array_like=True, frozen=True, tag="put-subscription"):
    """A new subscription, with the streams that it begins with."""

    subscription: Subscription

    def check(self, state: "ShardState") -> None:
        if self.subscription.id in state.subscriptions:
            raise AlreadyThere(f"subscription '{self.subscription.id}' exists")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        links = {path: msgspec.structs.replace(link) for path, link in self.subscription.links.items()}
        state.subscriptions[self.subscription.id] = msgspec.structs.replace(self.subscription, links=links, snapshot={})


class DropSubscription(msgspec.Struct, array_like=True, frozen=True, tag="drop-subscription"):
    """A subscription goes. Answers whether there was one."""

    name: str

    def check(self, state: "ShardState") -> None:
        """Always allowed."""

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> bool:
        return state.subscriptions.pop(self.name, None) is not None


class LinkStreams(msgspec.Struct, array_like=True, frozen=True, tag="link-streams"):
    """Streams are named to a subscription, with the places from which it reads them, or no longer."""

    name: str
    put: dict[str, int]
    drop: list[str] = []

    def check(self, state: "ShardState") -> None:
        known(state, self.name)

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        links = known(state, self.name).links
        for path, acked in self.put.items():
            links.setdefault(path, Link(acked)).explicit = True
        for path in self.drop:
            link = links.get(path)
            if link is not None:
                link.explicit = False
                if not link.by_pattern:
                    del links[path]


class WakeSubscription(msgspec.Struct, array_like=True, frozen=True, tag="wake-subscription"):
    """There is something new. `found` are streams that the pattern fits and that were not linked before."""

    name: str
    after: int
    """The generation before this wake, so that of two that wake it at once one is refused."""
    wake: str
    snapshot: dict[str, int]
    found: list[str] = []
    lease_until_ms: int = 0

    def check(self, state: "ShardState") -> None:
        subscription = known(state, self.name)
        if subscription.generation != self.after or subscription.wake:
            raise Fenced(f"subscription '{self.name}' was woken already")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> int:
        subscription = known(state, self.name)
        for path in self.found:
            subscription.links.setdefault(path, Link(-1)).by_pattern = True
        subscription.generation += 1
        subscription.wake = self.wake
        subscription.snapshot = dict(self.snapshot)
        subscription.lease_until_ms = self.lease_until_ms
        return subscription.generation


class ClaimSubscription(msgspec.Struct, array_like=True, frozen=True, tag="claim-subscription"):
    """A worker takes a wake, if nobody has it."""

    name: str
    generation: int
    wake: str
    holder: str
    lease_until_ms: int

    def check(self, state: "ShardState") -> None:
        subscription = current(state, self.name, self.generation, self.wake)
        if subscription.holder:
            raise AlreadyClaimed(subscription.holder, subscription.generation)

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        subscription = known(state, self.name)
        subscription.holder = self.holder
        subscription.lease_until_ms = self.lease_until_ms


class AckSubscription(msgspec.Struct, array_like=True, frozen=True, tag="ack-subscription"):
    """Places are acknowledged, the lease goes on, and with `done` the wake is over."""

    name: str
    generation: int
    wake: str
    acks: dict[str, int]
    done: bool
    lease_until_ms: int

    def check(self, state: "ShardState") -> None:
        subscription = current(state, self.name, self.generation, self.wake)
        for path, offset in self.acks.items():
            link = subscription.links.get(path)
            if link is None:
                raise Refused(f"'{path}' is no stream of this subscription")
            if offset < link.acked:
                raise Refused(f"'{path}' is acknowledged up to {link.acked}, beyond {offset}")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        subscription = known(state, self.name)
        for path, offset in self.acks.items():
            subscription.links[path].acked = offset
        subscription.lease_until_ms = self.lease_until_ms
        if self.done:
            subscription.rest()


class LapseSubscription(msgspec.Struct, array_like=True, frozen=True, tag="lapse-subscription"):
    """A lease is over, by the proposer's clock. Answers whether it was: it may have been prolonged."""

    name: str
    generation: int
    wake: str

    def check(self, state: "ShardState") -> None:
        current(state, self.name, self.generation, self.wake)

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> bool:
        subscription = known(state, self.name)
        if not subscription.lease_until_ms or at_ms < subscription.lease_until_ms:
            return False
        subscription.rest()
        return True
