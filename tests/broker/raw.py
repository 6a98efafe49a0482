"""A Kafka client without opinions: it sends what it is told, in the version it is told, and says what came back."""

import asyncio
import contextlib
import struct

from runnel.codec.wire import decode_response, encode_request


class Hung(Exception):
    """The server closed the connection."""


class RawClient:
    """`await client.ask(Request(...), version)`, or `send` and `receive` on their own."""

    def __init__(self, reader, writer, client_id):
        self.reader, self.writer, self.client_id = reader, writer, client_id
        self.asked = []
        self.number = 0

    @classmethod
    async def connect(cls, address, client_id="raw"):
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        return cls(reader, writer, client_id)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    def send(self, request, version, *, expect=True):
        self.number += 1
        if expect:
            self.asked.append((request.api_key, version, self.number))
        self.writer.writelines(
            bytes(part) for part in encode_request(request.api_key, version, self.number, self.client_id, request)
        )

    def send_bytes(self, data):
        self.writer.write(data)

    async def frame(self):
        try:
            async with asyncio.timeout(20):
                (size,) = struct.unpack(">i", await self.reader.readexactly(4))
                return await self.reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Hung from error

    async def receive(self):
        """The answer to the oldest request that has none yet."""
        key, version, number = self.asked.pop(0)
        correlation, response = decode_response(key, version, await self.frame())
        assert correlation == number, f"answer {correlation} came in the place of {number}"
        return response

    async def ask(self, request, version):
        self.send(request, version)
        return await self.receive()
