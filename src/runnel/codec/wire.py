"""The codec's front door: from a frame to a message, from a message to buffers.

    header = read_request_header(frame)                                  # frame: one frame, without its size
    request = decode_request(header.api_key, header.api_version, frame, header.body_at)
    …
    buffers = encode_response(header.api_key, header.api_version, header.correlation_id, response)
    transport.writelines(buffers)                                        # size and header are in the first of them

Messages come from `runnel.codec.messages.<api>`: one class for all versions, fields as attributes. Codecs are compiled
when a version of an API is first seen (about a millisecond) and kept; there are as many as there are versions.
"""

from functools import cache
from struct import Struct
from typing import Any

from runnel.codec.apis import api_of
from runnel.codec.declare import Message
from runnel.codec.decoding import Decoder, compile_decoder
from runnel.codec.encoding import Encoder, compile_encoder
from runnel.codec.framing import read_response_header
from runnel.codec.primitives import Buffer

_SIZE_AND_ID = Struct(">ii")
_REQUEST_START = Struct(">ihhi")
_SIZE = Struct(">i")
_SHORT = Struct(">h")


@cache
def request_decoder(api_key: int, version: int) -> Decoder:
    return compile_decoder(api_of(api_key, version).request(), version)


@cache
def response_encoder(api_key: int, version: int) -> tuple[Encoder, int]:
    """With how many bytes to keep free before the message: size, correlation id, and an empty tagged section."""
    api = api_of(api_key, version)
    return compile_encoder(api.response(), version), 8 + api.response_header(version)


@cache
def request_encoder(api_key: int, version: int) -> tuple[Encoder, bool]:
    """With whether the request's header has a tagged section."""
    api = api_of(api_key, version)
    return compile_encoder(api.request(), version), api.request_header(version) == 2


@cache
def response_decoder(api_key: int, version: int) -> tuple[Decoder, int]:
    """With the version of the response's header."""
    api = api_of(api_key, version)
    return compile_decoder(api.response(), version), api.response_header(version)


def decode_request(api_key: int, version: int, frame: Buffer, at: int) -> Any:
    """The request that begins at `at`. Its records are views into the frame; all else is copied out of it."""
    message, _ = request_decoder(api_key, version)(frame, at)
    return message


def encode_response(api_key: int, version: int, correlation_id: int, response: Message) -> list[Buffer]:
    """A whole frame, as buffers to be written one after the other; large record data is not copied."""
    encode, head = response_encoder(api_key, version)
    out = bytearray(head)
    _SIZE_AND_ID.pack_into(out, 0, 0, correlation_id)
    return _framed(encode, out, response)


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, request: Message
) -> list[Buffer]:
    """The same for a client."""
    encode, flexible = request_encoder(api_key, version)
    out = bytearray(_REQUEST_START.pack(0, api_key, version, correlation_id))
    if client_id is None:
        out += b"\xff\xff"
    else:
        name = client_id.encode()
        out += _SHORT.pack(len(name))
        out += name
    if flexible:
        out.append(0)
    return _framed(encode, out, request)


def decode_response(api_key: int, version: int, frame: Buffer) -> tuple[int, Any]:
    """The correlation id and the message of a response."""
    decode, header_version = response_decoder(api_key, version)
    correlation_id, at = read_response_header(frame, header_version)
    message, _ = decode(frame, at)
    return correlation_id, message


def decode_bare(kind: type[Message], version: int, data: Buffer) -> Any:
    """A message without frame or header, such as those in `messages.consumer_protocol`."""
    message, _ = _bare_decoder(kind, version)(data, 0)
    return message


def encode_bare(message: Message, version: int) -> bytes:
    parts: list[Buffer] = []
    last = _bare_encoder(type(message), version)(message, bytearray(), parts)
    return b"".join((*parts, last))


@cache
def _bare_decoder(kind: type[Message], version: int) -> Decoder:
    return compile_decoder(kind, version)


@cache
def _bare_encoder(kind: type[Message], version: int) -> Encoder:
    return compile_encoder(kind, version)


def _framed(encode: Encoder, out: bytearray, message: Message) -> list[Buffer]:
    """Encodes behind a header that is there already, then fills in the size before it."""
    parts: list[Buffer] = []
    last = encode(message, out, parts)
    if not parts:
        _SIZE.pack_into(out, 0, len(out) - 4)
        return [out]
    if last:
        parts.append(last)
    _SIZE.pack_into(out, 0, sum(map(len, parts)) - 4)
    return parts
