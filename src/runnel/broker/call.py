"""One request on its way to its answer, and who sent it.

A handler is given a `Call` and gives back one of three things:

    a response        sent in its turn
    a coroutine       run as a task; what it returns is sent; it is cancelled when the client leaves
    None              the handler has called `answer` or will call it later, from whatever callback it likes

Answers leave in the order of the requests, whatever the order of answering.
"""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from runnel.broker.arenas import Arena
from runnel.codec.declare import Message
from runnel.codec.primitives import Buffer
from runnel.codec.wire import encode_response
from runnel.ingest.window import Producer

if TYPE_CHECKING:
    from runnel.broker.connection import Connection

Handler = Callable[["Call"], "Message | Coroutine[Any, Any, Message] | None"]


class Client:
    """What is known of whoever is at the other end of a connection."""

    __slots__ = ("host", "id", "port", "principal", "producer", "software", "software_version", "zone")

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.id = ""
        """The client id of the latest request."""
        self.software = ""
        self.software_version = ""
        self.principal = "User:ANONYMOUS"
        self.zone = ""
        """From `zone_id=…` inside the client id."""
        self.producer = Producer()
        """What the window learns of this connection's rhythm."""


class Call:
    """See the module."""

    __slots__ = (
        "_arena", "_connection", "answered", "api_key", "client", "correlation_id", "out", "pipelined", "request",
        "task", "version", "when_gone",
    )  # fmt: skip

    def __init__(
        self,
        connection: "Connection",
        client: Client,
        api_key: int,
        version: int,
        correlation_id: int,
        request: Any,
        arena: Arena,
        *,
        pipelined: bool,
    ) -> None:
        self._connection = connection
        self._arena = arena
        self.client = client
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.request = request
        self.pipelined = pipelined
        self.answered = False
        self.out: list[Buffer] = []
        self.task: Any = None
        self.when_gone: Callable[[], None] | None = None
        """Called once if the client leaves before it is answered."""

    @property
    def is_gone(self) -> bool:
        """Whether nobody is there to read the answer."""
        return self._connection.transport is None

    def hold(self) -> Callable[[], None]:
        """Keep the memory that the request's records lie in, until what is returned is called, once."""
        self._arena.hold()
        return self._arena.release

    def answer(self, response: Message) -> None:
        """Answer; once. After the client has gone it does nothing."""
        try:
            out = encode_response(self.api_key, self.version, self.correlation_id, response)
        except Exception as error:  # noqa: BLE001  whoever answers from a callback must not pay for our mistake
            self._connection.server.unanswerable(self, error)
            return
        self.answer_bytes(out)

    def answer_bytes(self, out: list[Buffer]) -> None:
        """Answer with a whole frame that is encoded already; nothing at all when it is empty (acks=0)."""
        assert not self.answered, f"a request of API {self.api_key} is answered twice"
        self.answered = True
        self.out = out
        self._connection.ready(self)

    def hang_up(self) -> None:
        """Close the connection in place of an answer, as Kafka does where the protocol has no words."""
        self._connection.abort()
