"""One POST to somebody's webhook: what it resolves to is looked at first, redirects are not followed, all is bounded."""

import asyncio
import ipaddress
import socket
import ssl
from urllib.parse import urlsplit

from runnel.api.subscriptions.asks import UrlRejected, check_url, is_public, is_this_machine
from runnel.errors import Unavailable

ANSWER_BYTES_MAX = 65_536


async def post(url: str, body: bytes, headers: dict[str, str], *, seconds: float, local: bool) -> tuple[int, bytes]:
    """The status and body of the answer; `Unavailable` when there is none in time."""
    check_url(url, local=local)
    try:
        async with asyncio.timeout(seconds):
            return await _post(url, body, headers, local=local)
    except (OSError, TimeoutError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
        raise Unavailable(f"the webhook did not answer: {type(error).__name__}") from None


async def _post(url: str, body: bytes, headers: dict[str, str], *, local: bool) -> tuple[int, bytes]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    address = await _resolve(host, port, local=local)
    context = ssl.create_default_context() if secure else None
    reader, writer = await asyncio.open_connection(
        address, port, ssl=context, server_hostname=host if secure else None, limit=ANSWER_BYTES_MAX
    )
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        fields = {"host": parts.netloc, "content-length": str(len(body)), "connection": "close", **headers}
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split(" ")[1])
        told = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        return status, await _body(reader, told)
    finally:
        writer.close()


async def _resolve(host: str, port: int, *, local: bool) -> str:
    """An address of a host that may be called."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for *_, place in found:
        address = ipaddress.ip_address(place[0])
        if is_public(address) or (local and is_this_machine(host) and address.is_loopback):
            return str(place[0])
    raise UrlRejected("webhook.url leads to a private address")


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = b""
        while (size := int((await reader.readline()).split(b";")[0], 16)) and len(body) + size <= ANSWER_BYTES_MAX:
            body += await reader.readexactly(size)
            await reader.readline()
        return body
    length = headers.get("content-length")
    return await (reader.readexactly(min(int(length), ANSWER_BYTES_MAX)) if length else reader.read(ANSWER_BYTES_MAX))
