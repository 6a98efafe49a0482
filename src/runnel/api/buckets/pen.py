"""Writing a long answer as fast as its reader takes it."""

import asyncio

from runnel.api.answer import Answer


class Pen:
    """One streaming answer. `goes_on` says False once the server begins to shut down."""

    def __init__(self, respond: Answer) -> None:
        self._respond = respond
        self._room = asyncio.Event()
        self.goes_on = True
        respond.when_writable = self._room.set
        respond.when_draining = self._stop

    def _stop(self) -> None:
        self.goes_on = False
        self._room.set()

    async def write(self, data: bytes) -> None:
        self._room.clear()
        if not self._respond.write(data) and not self._respond.gone:
            await self._room.wait()
