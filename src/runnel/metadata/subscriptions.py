"""Subscriptions of the Durable Streams protocol: durable places in many streams, and who is working on what is new.

A subscription *wakes* when one of its streams has records beyond the place that was acknowledged. A wake has a
generation and a name; whoever works on it holds a lease, and what he says counts only while both are the current ones.
When he is done, or his lease is over, the next wake has the next generation.
"""

import msgspec


class Link(msgspec.Struct, array_like=True):
    """One stream of a subscription. New fields go last."""

    acked: int
    """Records before this offset are dealt with; -1: not even the stream's beginning."""
    explicit: bool = False
    by_pattern: bool = False


class Wanted(msgspec.Struct, array_like=True, frozen=True):
    """A subscription as it was asked for; asking for the same again changes nothing. New fields go last."""

    kind: str
    """`webhook` or `pull-wake`."""
    pattern: str | None
    streams: list[str]
    webhook: str | None
    wake_stream: str | None
    lease_ms: int
    description: str | None = None


class Subscription(msgspec.Struct, array_like=True):
    """New fields go last."""

    id: str
    wanted: Wanted
    born_ms: int
    links: dict[str, Link] = {}
    """By the paths of streams."""
    generation: int = 0
    wake: str = ""
    """The name of the wake that is not done yet; empty: none."""
    holder: str = ""
    lease_until_ms: int = 0
    """0: a wake that nobody has claimed waits for ever."""
    snapshot: dict[str, int] = {}
    """Where the streams ended when it woke."""

    def rest(self) -> None:
        """The wake is over."""
        self.wake = self.holder = ""
        self.lease_until_ms = 0
        self.snapshot = {}
