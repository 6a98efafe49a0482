"""Which streams a pattern fits: `*` is one part of a path, `**` any number of them, `%2A` a star that is meant."""

import re


def parts_of(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def fits(pattern: str, path: str) -> bool:
    """Dynamic over the parts of both, so that no pattern takes more than their product."""
    wanted, given = parts_of(pattern), parts_of(path)
    reached = {0}
    for part in [*given, None]:
        opened: set[int] = set()
        for at in reached:
            # A `**` may stand for nothing, so what follows it is reached as well.
            end = next((place for place in range(at, len(wanted)) if wanted[place] != "**"), len(wanted))
            opened.update(range(at, end + 1))
        if part is None:
            return len(wanted) in opened
        reached = set()
        for at in opened:
            if at == len(wanted):
                continue
            if wanted[at] == "**":
                reached.add(at)
            elif wanted[at] == "*" or re.sub("%2[Aa]", "*", wanted[at]) == part:
                reached.add(at + 1)
    raise AssertionError("the last part is none")
