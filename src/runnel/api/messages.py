"""What passes through the HTTP door: a request as it was read, a response as it will be written.

Both are plain values. Parts that not every route needs (decoded path, query) are worked out when first asked for,
because an append needs neither a dictionary of its query nor a second look at its path.

A path part is decoded by itself, after the split at the slashes: an encoded slash stays inside its part and can never
make two parts of one. Parts `.` and `..`, NUL and bytes that are no UTF-8 are refused, so no route has to think of them.

Header names are lower case. A header that came twice is one value with a comma, as RFC 9110 reads it.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from urllib.parse import unquote_to_bytes

from runnel.errors import Refused

QUERY_PAIRS_MAX = 64
PATH_PARTS_MAX = 64
GZIP_BYTES_MIN = 1024
# Compressing happens on the loop, between other people's requests: at level 1 a megabyte costs some 10 ms.
GZIP_BYTES_MAX = 1 << 20
COMPRESSIBLE = ("text/", "application/json", "application/x-ndjson", "application/problem+json", "application/xml")
NO_HEADERS: Mapping[str, str] = {}


def _decoded(part: str) -> str:
    if "%" not in part:
        return part
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise Refused(f"{part[:80]!r} is not percent-encoded UTF-8") from None


class Request:
    """One request, whole: its body has been read."""

    __slots__ = ("_parts", "_query", "body", "headers", "method", "peer", "raw_path", "raw_query")

    def __init__(
        self, method: str, raw_path: str, raw_query: str, headers: dict[str, str], body: bytes, peer: str = ""
    ) -> None:
        self.method = method
        self.raw_path = raw_path
        self.raw_query = raw_query
        self.headers = headers
        self.body = body
        self.peer = peer
        self._parts: tuple[str, ...] | None = None
        self._query: list[tuple[str, str]] | None = None

    def __repr__(self) -> str:
        return f"<{self.method} {self.raw_path} {len(self.body)} bytes>"

    @property
    def parts(self) -> tuple[str, ...]:
        """The path split at its slashes, each part decoded: `/a/b%2Fc` is `("a", "b/c")`, `/` is `("",)`."""
        if self._parts is None:
            raw = self.raw_path.removeprefix("/").split("/", PATH_PARTS_MAX)
            if len(raw) > PATH_PARTS_MAX:
                raise Refused(f"the path has more than {PATH_PARTS_MAX} parts")
            parts = tuple(map(_decoded, raw))
            if any(part in {".", ".."} or "\0" in part for part in parts):
                raise Refused("the path may not contain '.', '..' or NUL as a part")
            self._parts = parts
        return self._parts

    @property
    def query(self) -> list[tuple[str, str]]:
        """The pairs of the query in their order, decoded; a name without `=` has an empty value."""
        if self._query is None:
            pairs = []
            if self.raw_query:
                pieces = self.raw_query.split("&", QUERY_PAIRS_MAX)
                if len(pieces) > QUERY_PAIRS_MAX:
                    raise Refused(f"the query has more than {QUERY_PAIRS_MAX} pairs")
                for piece in pieces:
                    if piece:
                        name, _, value = piece.replace("+", " ").partition("=")
                        pairs.append((_decoded(name), _decoded(value)))
            self._query = pairs
        return self._query

    def ask(self, name: str) -> str | None:
        """The value of a query name that may come at most once."""
        values = [value for key, value in self.query if key == name]
        if len(values) > 1:
            raise Refused(f"query parameter {name!r} was given {len(values)} times: give it once")
        return values[0] if values else None


@dataclass(slots=True)
class Response:
    """A finite answer. Content-Length, Date, Connection and Content-Encoding are the server's business."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | bytearray | memoryview = b""


def split_target(target: bytes) -> tuple[str, str]:
    """Path and query of a request target; of an absolute one (`http://host/path`), the part after the host."""
    try:
        text = target.decode("ascii")
    except UnicodeDecodeError:
        raise Refused("the request target is not ASCII: percent-encode it") from None
    if not text.startswith("/") and text != "*":
        scheme, separator, rest = text.partition("://")
        if not separator or scheme.lower() not in {"http", "https"}:
            raise Refused("the request target is neither a path nor an http address")
        slash = rest.find("/")
        text = rest[slash:] if slash >= 0 else "/"
    path, _, query = text.partition("#")[0].partition("?")
    return path, query


@lru_cache(maxsize=64)
def status_line(status: int) -> str:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    return f"HTTP/1.1 {status} {phrase}\r\n"


def render_head(status: int, headers: Mapping[str, str], prefix: str, tail: str) -> bytes:
    """Status line and headers. A header with a line break in it is our mistake: it would be a second header."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    assert lines.count("\n") == len(headers) == lines.count("\r"), f"a header with a line break in it: {lines!r}"
    return f"{status_line(status)}{prefix}{lines}{tail}\r\n".encode("latin-1")


def accepts_gzip(accepted: str) -> bool:
    """What an Accept-Encoding header says of gzip; an explicit word on gzip beats the asterisk."""
    verdict = False
    for choice in accepted.lower().split(","):
        coding, _, parameters = choice.partition(";")
        coding = coding.strip()
        if coding in {"gzip", "x-gzip", "*"}:
            name, _, weight = parameters.partition("=")
            wanted = not (name.strip() == "q" and weight.strip().strip("0.") == "" and weight.strip() != "")
            if coding != "*":
                return wanted
            verdict = wanted
    return verdict


def compressible(response: Response) -> bool:
    if not GZIP_BYTES_MIN <= len(response.body) <= GZIP_BYTES_MAX or "content-encoding" in response.headers:
        return False
    return response.headers.get("content-type", "").lower().startswith(COMPRESSIBLE)


def gzipped(body: bytes | bytearray | memoryview) -> bytes:
    """The body as a gzip stream. Same bytes in, same bytes out: no time of day goes into it."""
    packer = zlib.compressobj(level=1, wbits=31)
    return packer.compress(body) + packer.flush()
