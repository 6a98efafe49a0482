"""The topics that groups of the new protocol choose from, by name or by pattern.

Patterns are RE2's, as Kafka's are: matching takes time in proportion to the name, whatever the pattern, so that nobody
can keep a broker busy with one. A pattern's length and the memory of its automaton are bounded.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from runnel.metadata.topics import Topic

PATTERN_LENGTH_MAX = 1000
PATTERN_MEMORY_MAX = 1 << 20
PATTERNS_KEPT = 256


class BadPattern(ValueError):
    """It is no regular expression of RE2's, or too large a one."""


class TopicsSeen(NamedTuple):
    """The topics at one moment. Another version means that some of them may have changed."""

    version: object
    by_name: Mapping[str, Topic]

    def matching(self, pattern: str) -> frozenset[str]:
        """The names that a pattern matches as a whole."""
        matches = compiled(pattern)
        return frozenset(name for name in self.by_name if matches(name))


@lru_cache(maxsize=PATTERNS_KEPT)
def compiled(pattern: str) -> Callable[[str], Any]:
    import re2  # noqa: PLC0415  only groups with patterns pay for it

    if len(pattern) > PATTERN_LENGTH_MAX:
        raise BadPattern(f"a pattern has at most {PATTERN_LENGTH_MAX} characters, not {len(pattern)}")
    options = re2.Options()
    options.max_mem = PATTERN_MEMORY_MAX
    options.log_errors = False
    try:
        matches: Callable[[str], Any] = re2.compile(pattern, options).fullmatch
    except re2.error as error:
        raise BadPattern(f"'{pattern}' is not a regular expression: {error}") from None
    return matches
