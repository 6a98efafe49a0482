"""Frames on a Kafka connection: four bytes of size, then that many bytes; in them a header, then the message.

`cut` finds the whole frames in a stretch of bytes without copying or keeping anything, for a server that receives into
arenas. `FrameReader` keeps what is unfinished, for everyone who just has a stream. Both hold the size that a frame
claims against a limit as soon as its four bytes are there, before any memory is spent on it.

Request headers: v1 is key, version, correlation id and client id; v2 (flexible versions) adds tagged fields. The client
id keeps its plain two-byte length in both, so that a server can read it before it knows the version.
"""

from dataclasses import dataclass
from struct import Struct

from runnel.codec.apis import APIS, UnknownApi
from runnel.codec.primitives import BadMessage, Buffer, read_uvarint, skip_tagged

SIZE_BYTES = 4
# A request without client id is this long at least; an answer holds its correlation id.
REQUEST_BYTES_MIN = 8
RESPONSE_BYTES_MIN = 4

_SIZE = Struct(">i")
_REQUEST = Struct(">hhih")
_unpack_size = _SIZE.unpack_from
_unpack_request = _REQUEST.unpack_from


class BadFrame(BadMessage):
    """The stream is no longer one of Kafka frames: nothing after this can be trusted, close the connection."""


def cut(
    buffer: Buffer, at: int, end: int, size_max: int, size_min: int = REQUEST_BYTES_MIN
) -> tuple[list[tuple[int, int]], int, int]:
    """The whole frames between `at` and `end`, as (begin, end) of their insides.

    Second, where the first unfinished frame begins (`end` if none). Third, how many bytes from there are wanted until
    it is whole, as far as one can tell: all of the frame, or the four of its size.
    """
    frames: list[tuple[int, int]] = []
    while end - at >= SIZE_BYTES:
        (size,) = _unpack_size(buffer, at)
        if not size_min <= size <= size_max:
            raise BadFrame(f"a frame says that it has {size} bytes; {size_min} to {size_max} are taken")
        after = at + SIZE_BYTES + size
        if after > end:
            return frames, at, SIZE_BYTES + size
        frames.append((at + SIZE_BYTES, after))
        at = after
    return frames, at, SIZE_BYTES


class FrameReader:
    """Frames out of a stream that arrives in pieces of any size. Keeps at most one unfinished frame and one piece."""

    __slots__ = ("_kept", "size_max", "size_min")

    def __init__(self, size_max: int, size_min: int = REQUEST_BYTES_MIN) -> None:
        self._kept = bytearray()
        self.size_max = size_max
        self.size_min = size_min

    def feed(self, piece: Buffer) -> list[bytes]:
        """The frames that are whole now, without their sizes."""
        self._kept += piece
        frames, rest, _ = cut(self._kept, 0, len(self._kept), self.size_max, self.size_min)
        with memoryview(self._kept) as view:
            whole = [bytes(view[begin:end]) for begin, end in frames]
        if rest:
            del self._kept[:rest]
        return whole

    @property
    def unfinished(self) -> int:
        """Bytes kept of a frame that has not ended: above zero at the end of the stream, it was cut off."""
        return len(self._kept)


@dataclass(slots=True)
class RequestHeader:
    """Who asks for what. `body_at` is where the message begins in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_at: int


def read_request_header(frame: Buffer) -> RequestHeader:
    """The header of a frame. An API nobody knows is refused here; versions are for the caller to judge.

    ApiVersions in a version from the future must be answered (in version 0, with UNSUPPORTED_VERSION), so its header is
    read like any other.
    """
    end = len(frame)
    if end < _REQUEST.size:
        raise BadMessage(f"a request of {end} bytes ends inside its header")
    api_key, api_version, correlation_id, size = _unpack_request(frame, 0)
    api = APIS.get(api_key)
    if api is None:
        raise UnknownApi(f"no Kafka API has key {api_key} here")
    at = _REQUEST.size
    client_id = None
    if size >= 0:
        if size > end - at:
            raise BadMessage(f"the client id of a request runs {size - (end - at)} bytes past its end")
        try:
            client_id = str(frame[at : at + size], "utf-8")
        except UnicodeDecodeError as why:
            raise BadMessage(f"the client id of a request is no text: {why}") from why
        at += size
    if api_version >= api.flexible:
        count, at = read_uvarint(frame, at, end)
        if count:
            at = skip_tagged(frame, at, end, count, whole=True)
    return RequestHeader(api_key, api_version, correlation_id, client_id, at)


def read_response_header(frame: Buffer, header_version: int) -> tuple[int, int]:
    """The correlation id that a response answers to, and where its message begins."""
    end = len(frame)
    if end < RESPONSE_BYTES_MIN:
        raise BadMessage(f"a response of {end} bytes ends inside its header")
    (correlation_id,) = _unpack_size(frame, 0)
    at = RESPONSE_BYTES_MIN
    if header_version:
        count, at = read_uvarint(frame, at, end)
        if count:
            at = skip_tagged(frame, at, end, count, whole=True)
    return correlation_id, at
