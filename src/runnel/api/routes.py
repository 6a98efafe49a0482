"""From a method and a path to a handler.

    routes = Routes()
    routes.add("GET", "/healthz", healthz)
    routes.add("PUT", "/v1/stream/{path…}", create)

A pattern is made of literal parts, `{name}` for one part that is not empty, and at its end `{name…}` for one or more
parts. A literal beats a `{name}`, and both beat a `{name…}`, whatever was added first. What a pattern names comes to
the handler as `found`; of a `{name…}` it is the parts, joined by slashes.

A path that no pattern fits is a 404; a method that is not there is a 405 with Allow; OPTIONS is answered for all, with
what `Routes(options=...)` adds for browsers (CORS). HEAD is served by GET where no handler of its own was added.
"""

from collections.abc import Callable, Mapping
from typing import Any

from runnel.api.answer import Answer
from runnel.api.messages import NO_HEADERS, Request, Response
from runnel.api.problems import problem

Found = dict[str, str]
RoutedHandle = Callable[[Request, Answer, Found], None]


class _Node:
    """A step of the tree of patterns."""

    __slots__ = ("literals", "methods", "names", "one", "rest")

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.one: _Node | None = None
        self.rest: _Node | None = None
        self.methods: dict[str, RoutedHandle] = {}
        self.names: tuple[str, ...] = ()


class Routes:
    """A table of routes, itself a handle for the server."""

    def __init__(self, *, options: Mapping[str, str] = NO_HEADERS) -> None:
        self._root = _Node()
        self._options = options

    def first_parts(self) -> frozenset[str]:
        """The first parts of all paths that literally begin with them."""
        return frozenset(self._root.literals)

    def add(self, method: str, pattern: str, handle: RoutedHandle) -> None:
        """Add one route. Two handlers for one method and pattern, or two spellings of its names, are our mistake."""
        assert pattern.startswith("/"), f"a pattern starts with a slash: {pattern}"
        node, names = self._root, []
        parts = pattern[1:].split("/")
        for index, part in enumerate(parts):
            if part.startswith("{") and part.endswith("…}"):
                assert index == len(parts) - 1, f"a rest stands at the end: {pattern}"
                names.append(part[1:-2])
                node.rest = node = node.rest or _Node()
            elif part.startswith("{") and part.endswith("}"):
                names.append(part[1:-1])
                node.one = node = node.one or _Node()
            else:
                node = node.literals.setdefault(part, _Node())
        assert not node.methods or node.names == tuple(names), f"two spellings of one pattern: {pattern}"
        assert method not in node.methods, f"two handlers for {method} {pattern}"
        node.names = tuple(names)
        node.methods[method] = handle

    def _find(self, node: _Node, parts: tuple[str, ...], at: int, taken: list[str]) -> _Node | None:
        if at == len(parts):
            return node if node.methods else None
        part = parts[at]
        known = node.literals.get(part)
        if known is not None and (found := self._find(known, parts, at + 1, taken)) is not None:
            return found
        if node.one is not None and part:
            taken.append(part)
            if (found := self._find(node.one, parts, at + 1, taken)) is not None:
                return found
            taken.pop()
        if node.rest is not None and any(parts[at:]):
            taken.append("/".join(parts[at:]))
            return node.rest
        return None

    def __call__(self, request: Request, respond: Answer) -> None:
        taken: list[str] = []
        node = self._find(self._root, request.parts, 0, taken)
        if node is None:
            respond(Response(204, self._options) if request.method == "OPTIONS" else problem(404, "nothing is here"))
            return
        methods: dict[str, Any] = node.methods
        handle = methods.get(request.method)
        if handle is None and request.method == "HEAD":
            handle = methods.get("GET")
        if handle is not None:
            handle(request, respond, dict(zip(node.names, taken, strict=True)))
            return
        allow = ", ".join(sorted({*methods, "OPTIONS"} | ({"HEAD"} if "GET" in methods else set())))
        if request.method == "OPTIONS":
            respond(Response(204, {"allow": allow, **self._options}))
        else:
            respond(problem(405, f"{request.method} is not possible here", {"allow": allow}))
