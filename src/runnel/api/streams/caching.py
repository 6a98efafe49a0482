"""What lets many readers of one place share one answer: ETags, cursors, Cache-Control.

A range of a stream never changes, so its ETag names the stream and the range. The stream's id stands in it, not its
path: a stream that is deleted and made anew has another id, and its old answers match nothing.

A cursor is the number of 20-second intervals since 2024-10-09. Readers that wait at the tail carry it in their
address, so that all who ask within an interval share one cached answer. Whoever comes with the current cursor or a
later one has been given that answer already, and gets a later one at random, or it would turn in circles.
"""

from runnel.world.chance import Chance

CURSOR_EPOCH_MS = 1_728_432_000_000
CURSOR_INTERVAL_MS = 20_000
CURSOR_JITTER_SECONDS_MAX = 3_600
CURSOR_DIGITS_MAX = 15

SHARED = "public, max-age=60, stale-while-revalidate=300"
PRIVATE = "private, max-age=60, stale-while-revalidate=300"
NEVER = "no-store"
LIVE = "no-cache"


def etag(stream: int, start: str, end: str, *, closed: bool) -> str:
    return f'"{stream:x}:{start}:{end}{":c" if closed else ""}"'


def matches(if_none_match: str | None, tag: str) -> bool:
    """Whether an If-None-Match header names this ETag; weak and strong are the same here."""
    if if_none_match is None:
        return False
    if if_none_match.strip() == "*":
        return True
    return any(each.strip().removeprefix("W/") == tag for each in if_none_match.split(","))


def next_cursor(now_ms: int, given: str | None, chance: Chance) -> str:
    current = max(0, (now_ms - CURSOR_EPOCH_MS) // CURSOR_INTERVAL_MS)
    if given is None or not (given.isascii() and given.isdigit()) or len(given) > CURSOR_DIGITS_MAX:
        return str(current)
    if int(given) < current:
        return str(current)
    jitter_ms = chance.randint(1, CURSOR_JITTER_SECONDS_MAX) * 1000
    return str(int(given) + max(1, -(-jitter_ms // CURSOR_INTERVAL_MS)))
