"""Schemas by their ids, asked of a schema registry over HTTP: what the table needs to read framed values.

    schemas = Schemas(addresses_of(engine.root.nodes.values(), settings.registry))
    schemas.schema(7)          its kind, its text, and the texts that it refers to, dependencies first
    read_values(values, schemas.writer)

    Schemas((), at_hand=at_hand_in(engine.root))    inside a node nobody needs to be asked

An id means the same for ever, so what was learned is kept (`KEPT_MAX` schemas, the oldest goes first), and a pickled
copy takes it along: executors that get one from the driver mostly need no registry. Asking waits for an answer: it
is for drivers, executors and prompts, never for an event loop.

A registry that does not answer is `Unavailable` after `tries_max` rounds over its addresses; an id that it does not
know is `NotThere`; any other refusal is `Refused` in its words. Names and passwords are written in the address
(`https://name:secret@host`) and never appear in a message.
"""

import base64
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Literal, Self, cast
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from runnel.errors import Corrupt, NotThere, Refused, Unavailable
from runnel.metadata.nodes import Node
from runnel.metadata.schemas import DEFAULT_CONTEXT
from runnel.metadata.state import ShardState

if TYPE_CHECKING:
    from runnel.table.values import Writer

Kind = Literal["AVRO", "JSON", "PROTOBUF"]

KEPT_MAX = 10_000
ANSWER_BYTES_MAX = 32 << 20
REFERENCES_MAX = 1000
"""Schemas that one schema needs, directly or not."""
PAUSE_S, PAUSE_S_MAX = 0.1, 2.0
TAKEN_ALONG_BYTES_MAX = 1 << 20
"""Of texts that a copy takes to where it is sent."""


@dataclass(frozen=True, slots=True)
class Schema:
    """What a schema id stands for. `references` are (name, text) of all that it needs, dependencies first."""

    id: int
    kind: Kind
    text: str
    references: tuple[tuple[str, str], ...] = ()


def addresses_of(nodes: Iterable[Node], registry: str = "") -> tuple[str, ...]:
    """Where schemas can be asked for: the registry that the settings name, else the HTTP doors of the nodes."""
    if registry:
        return tuple(part.strip() for part in registry.split(",") if part.strip())
    known = sorted(nodes, key=lambda node: (node.draining, node.id))
    return tuple(node.addresses["http"] for node in known if "http" in node.addresses)


AtHand = Callable[[int], "Schema | None"]


def at_hand_in(root: ShardState) -> AtHand:
    """Schemas as the root shard has them, without a question to anyone."""

    def look(schema_id: int) -> Schema | None:
        known = root.registry.schema(schema_id)
        if known is None:
            return None
        texts = root.registry.referred(DEFAULT_CONTEXT, known.references)
        return Schema(schema_id, cast(Kind, known.kind), known.text, tuple(texts.items()))

    return look


class Schemas:
    """See the module."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        timeout_s: float = 10.0,
        tries_max: int = 5,
        pause: Callable[[float], None] = time.sleep,
        at_hand: AtHand | None = None,
    ) -> None:
        for address in addresses:
            if urlsplit(address).scheme not in {"http", "https"}:
                raise Refused(f"{_harmless(address)!r} is no address of a schema registry: write http://HOST:PORT")
        self.addresses = tuple(address.rstrip("/") for address in addresses)
        self._timeout_s = timeout_s
        self._tries_max = tries_max
        self._pause = pause
        self.kept: dict[int, Schema] = {}
        self._at_hand = at_hand

    def __getstate__(self) -> dict[str, Any]:
        """What travels to executors: what was learned, not the node that it was learned in."""
        return {**self.__dict__, "_at_hand": None}

    def schema(self, schema_id: int) -> Schema:
        """What an id stands for."""
        known = self.kept.get(schema_id)
        if known is None:
            known = (self._at_hand(schema_id) if self._at_hand is not None else None) or self._asked(schema_id)
            while len(self.kept) >= KEPT_MAX:
                del self.kept[next(iter(self.kept))]
            self.kept[schema_id] = known
        return known

    def take_along(self, root: ShardState, bytes_max: int = TAKEN_ALONG_BYTES_MAX) -> Self:
        """Keep what the root shard has, the newest first, so that a copy elsewhere need not ask for it."""
        look = at_hand_in(root)
        for schema_id in sorted(root.registry.context(DEFAULT_CONTEXT).schemas, reverse=True):
            known = look(schema_id)
            assert known is not None, f"schema {schema_id} is among those that there are"
            bytes_max -= len(known.text) + sum(len(text) for _, text in known.references)
            if bytes_max < 0:
                break
            self.kept[schema_id] = known
        return self

    def learn_from(self, other: "Schemas") -> None:
        """Keep what a copy knows."""
        self.kept |= other.kept
        while len(self.kept) > KEPT_MAX:
            del self.kept[next(iter(self.kept))]

    def _asked(self, schema_id: int) -> Schema:
        answer = self._ask(f"/schemas/ids/{schema_id}", f"schema {schema_id}")
        gathered: dict[str, str] = {}
        self._gather(answer, gathered, ())
        return Schema(schema_id, _kind_of(answer), _text_of(answer), tuple(gathered.items()))

    def writer(self, schema_id: int) -> "Writer":
        """The same as `read_values` takes it."""
        from runnel.table.shapes import Format  # noqa: PLC0415  as above
        from runnel.table.values import Writer  # noqa: PLC0415  asking needs no pyarrow, reading does

        schema = self.schema(schema_id)
        return Writer(Format[schema.kind], schema_id, schema.text, schema.references)

    def _gather(self, answer: dict[str, Any], gathered: dict[str, str], above: tuple[str, ...]) -> None:
        """The references of an answer and theirs, each after those it needs itself."""
        for reference in answer.get("references") or ():
            name, subject = str(reference["name"]), str(reference["subject"])
            if name in gathered:
                continue
            if name in above or len(gathered) + len(above) >= REFERENCES_MAX:
                raise Refused(f"the references of a schema lead in a circle, or to more than {REFERENCES_MAX} others")
            what = f"subject '{subject}' version {reference['version']}"
            path = f"/subjects/{quote(subject, safe='')}/versions/{reference['version']}?deleted=true"
            one = self._ask(path, what)
            self._gather(one, gathered, (*above, name))
            gathered[name] = _text_of(one)

    # --- asking

    def _ask(self, path: str, what: str) -> dict[str, Any]:
        """A JSON answer from the first address that gives one; rounds over all of them, with longer and longer pauses."""
        if not self.addresses:
            raise Unavailable(f"{what} is needed and no schema registry is known: start a node, or set 'registry'")
        trouble = "no answer"
        for tried in range(self._tries_max):
            if tried:
                self._pause(min(PAUSE_S_MAX, PAUSE_S * 2 ** (tried - 1)))
            for address in self.addresses:
                try:
                    return self._fetch(address, path, what)
                except HTTPError as error:
                    with error:
                        trouble = f"{error.code} {error.reason}"
                except (OSError, HTTPException) as error:
                    trouble = str(getattr(error, "reason", "") or error) or type(error).__name__
        places = ", ".join(map(_harmless, self.addresses))
        raise Unavailable(
            f"{what} cannot be had from the schema registry at {places} ({trouble}): see that it runs, then try again"
        )

    def _fetch(self, address: str, path: str, what: str) -> dict[str, Any]:
        url, headers = _with_credentials(address)
        headers["Accept"] = "application/vnd.schemaregistry.v1+json, application/json"
        try:
            with urlopen(Request(url + path, headers=headers), timeout=self._timeout_s) as response:  # noqa: S310  scheme checked
                body = response.read(ANSWER_BYTES_MAX + 1)
        except HTTPError as error:
            if error.code in {408, 429} or error.code >= 500:
                raise
            with error:
                said = _message_of(error.read(65_536)) or str(error.reason)
            if error.code == 404:
                raise NotThere(f"{what} is not in the schema registry: {said}") from None
            raise Refused(f"the schema registry refuses {what}: {error.code} {said}") from None
        if len(body) > ANSWER_BYTES_MAX:
            raise Refused(f"{what} is larger than {ANSWER_BYTES_MAX} bytes")
        try:
            answer = json.loads(body)
        except ValueError as error:
            raise Corrupt(f"the answer of the schema registry about {what} is no JSON: {error}") from None
        if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
            raise Corrupt(f"the answer of the schema registry about {what} holds no schema")
        return answer


def _text_of(answer: dict[str, Any]) -> str:
    return cast(str, answer["schema"])


def _kind_of(answer: dict[str, Any]) -> Kind:
    kind = answer.get("schemaType") or "AVRO"
    if kind not in ("AVRO", "JSON", "PROTOBUF"):
        raise Refused(f"schemas of type {str(kind)[:40]!r} cannot be read: AVRO, JSON and PROTOBUF can")
    return cast(Kind, kind)


def _message_of(body: bytes) -> str:
    try:
        document = json.loads(body)
        return str(document.get("message") or document.get("detail") or "")
    except (ValueError, AttributeError):
        return ""


def _with_credentials(address: str) -> tuple[str, dict[str, str]]:
    parts = urlsplit(address)
    if parts.username is None:
        return address, {}
    host = parts.netloc.rpartition("@")[2]
    secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return urlunsplit(parts._replace(netloc=host)), {"Authorization": f"Basic {base64.b64encode(secret).decode()}"}


def _harmless(address: str) -> str:
    """An address without its name and password."""
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
