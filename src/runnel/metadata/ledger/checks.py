"""What every ledger asks of its callers, said once."""

from collections.abc import Iterable, Sequence

from runnel.errors import Corrupt, Refused
from runnel.metadata.ledger.seam import APPEND_BYTES_MAX, APPEND_ENTRIES_MAX, ENTRY_BYTES_MAX, READ_BYTES_MAX, Trimmed
from runnel.model import Position, ShardId

SHARD_MAX = 99_999
"""Shards are numbered with five digits in names and 17 bits in keys."""


def check_shard(shard: ShardId) -> None:
    if not 0 <= shard <= SHARD_MAX:
        raise Refused(f"shard {shard} is not between 0 and {SHARD_MAX}")


def check_entries(entries: Sequence[tuple[ShardId, bytes]]) -> None:
    """Refuse what no ledger takes, before anything is sent."""
    if len(entries) > APPEND_ENTRIES_MAX:
        raise Refused(
            f"append of {len(entries)} entries is over the largest number of {APPEND_ENTRIES_MAX} in one call"
        )
    for shard, entry in entries:
        check_shard(shard)
        if len(entry) > ENTRY_BYTES_MAX:
            raise Refused(
                f"entry of {len(entry)} bytes for shard {shard} is over the largest size of {ENTRY_BYTES_MAX}"
            )
    if (size := sum(len(entry) for _, entry in entries)) > APPEND_BYTES_MAX:
        raise Refused(f"append of {size} bytes is over the largest size of {APPEND_BYTES_MAX} in one call")


def check_read(shard: ShardId, after: Position, limit: int) -> None:
    assert after >= 0, f"positions begin at 1, so nothing is after {after}"
    assert limit > 0, f"a read of {limit} entries asks for nothing"
    check_shard(shard)


def check_not_trimmed(shard: ShardId, after: Position, first: Position) -> None:
    if after + 1 < first:
        raise Trimmed(shard, first)


def check_dense(shard: ShardId, after: Position, entries: Iterable[tuple[Position, bytes]], where: str) -> None:
    """The second half of a pair: positions were dense when written, so they are dense when read."""
    expected = after + 1
    for position, _ in entries:
        if position != expected:
            raise Corrupt(f"ledger of shard {shard} in {where} has position {position} where {expected} belongs")
        expected += 1


def up_to_read_bytes(entries: Iterable[tuple[Position, bytes]], limit: int) -> list[tuple[Position, bytes]]:
    """The first entries that fit in one answer: at least one, if there is one."""
    answer: list[tuple[Position, bytes]] = []
    size = 0
    for position, entry in entries:
        size += len(entry)
        if answer and size > READ_BYTES_MAX:
            break
        answer.append((position, entry))
        if len(answer) == limit:
            break
    return answer
