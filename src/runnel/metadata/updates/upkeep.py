"""What upkeep enters: the sweep's horizon, and producers that fell silent."""

from typing import TYPE_CHECKING

import msgspec

from runnel.errors import Refused

if TYPE_CHECKING:
    from runnel.metadata.state import ShardState


class EnterHorizon(msgspec.Struct, array_like=True, frozen=True, tag="horizon"):
    """From here on, objects stamped earlier are refused, so that a sweep may remove those which nothing refers to."""

    stamp: int

    def check(self, state: "ShardState") -> None:
        if self.stamp < state.horizon:
            raise Refused(f"the horizon of shard {state.shard} is at {state.horizon} already")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        state.horizon = self.stamp


class ExpireProducers(msgspec.Struct, array_like=True, frozen=True, tag="expire-producers"):
    """Forget producers that were last seen before a moment, by the proposers' clocks. Answers how many went."""

    before_ms: int

    def check(self, state: "ShardState") -> None:
        """Always allowed."""

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> int:
        gone = 0
        for stream in state.streams.values():
            if stream.producers is None:
                continue
            silent = [key for key, producer in stream.producers.items() if producer.seen_ms < self.before_ms]
            for key in silent:
                del stream.producers[key]
            if not stream.producers:
                stream.producers = None
            gone += len(silent)
        return gone
