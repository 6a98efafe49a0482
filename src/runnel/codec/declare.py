"""How a Kafka message is declared: a class whose annotations are the protocol's facts.

    class TopicProduceData(Struct):
        name: String = field(default="", until=12)
        topic_id: Uuid = field(default=NO_UUID, since=13)
        partition_data: Sequence[PartitionProduceData] = ()

    class ProduceRequest(Message, key=0, first=3, last=13, flexible=9):
        transactional_id: String | None = None
        …

One class serves all versions of a message: a field that a version lacks holds its default after decoding and is left
out when encoding. Fields stand in the order of the wire. A plain default means "in every version"; `field` says more:

    since, until   first and last version with the field
    tag, tagged    the field is a tagged one of that number, from version `tagged` on (or wherever it exists)
    nullable       first version in which it may be null; an annotation with `| None` alone means "always may"

A tagged struct that is not there is None. A class carries no code: `compile` writes the decoder and the encoder of one
version when they are first asked for. Instances are slotted and take keyword arguments only.
"""

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, dataclass_transform

NO_UUID = bytes(16)

Bool = Annotated[bool, "bool"]
Int8 = Annotated[int, "int8"]
Int16 = Annotated[int, "int16"]
Uint16 = Annotated[int, "uint16"]
Int32 = Annotated[int, "int32"]
Int64 = Annotated[int, "int64"]
Float64 = Annotated[float, "float64"]
String = Annotated[str, "string"]
Bytes = Annotated[bytes, "bytes"]
# Sixteen bytes as they are on the wire: the cheapest thing that hashes.
Uuid = Annotated[bytes, "uuid"]
# Decoded: a memoryview into the frame, nothing is copied. To encode: bytes, memoryview or a list of them.
Records = Annotated[Any, "records"]


class FieldFacts:
    """What `field` was told; lives on in `Struct.__facts__`."""

    __slots__ = ("default", "nullable", "since", "tag", "tagged", "until")

    def __init__(
        self,
        default: Any,
        since: int = 0,
        until: int | None = None,
        tag: int | None = None,
        tagged: int | None = None,
        nullable: int | None = None,
    ) -> None:
        self.default = default
        self.since = since
        self.until = until
        self.tag = tag
        self.tagged = since if tagged is None else tagged
        self.nullable = nullable

    def exists_in(self, version: int) -> bool:
        return self.since <= version and (self.until is None or version <= self.until)


def field(
    *,
    default: Any,
    since: int = 0,
    until: int | None = None,
    tag: int | None = None,
    tagged: int | None = None,
    nullable: int | None = None,
) -> Any:
    return FieldFacts(default, since, until, tag, tagged, nullable)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class StructKind(type):
    """Turns the class body's defaults into slots, facts and an `__init__`."""

    __facts__: dict[str, FieldFacts]

    def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any], **about: int) -> "StructKind":
        facts: dict[str, FieldFacts] = {}
        if bases and not space.get("__abstract__"):
            for key in [key for key in space if not key.startswith("__")]:
                value = space.pop(key)
                facts[key] = value if isinstance(value, FieldFacts) else FieldFacts(value)
        space["__slots__"] = tuple(facts)
        space["__facts__"] = facts
        if facts:
            space["__init__"] = _init_of(facts)
        return super().__new__(cls, name, bases, space, **about)

    def __init__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any], **_: int) -> None:
        super().__init__(name, bases, space)


class Struct(metaclass=StructKind):
    """A part of a message, or (as `Message`) a whole one."""

    __facts__: ClassVar[dict[str, FieldFacts]]

    def _values(self) -> Iterable[tuple[str, Any]]:
        return ((name, getattr(self, name)) for name in self.__facts__)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(_alike(value, getattr(other, name)) for name, value in self._values())

    __hash__ = None  # type: ignore[assignment]  # fields can be set: no place in a dict

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in self._values() if value != self.__facts__[name].default)
        return f"{type(self).__name__}({told})"


class Message(Struct):
    """The body of a request, a response, or of bytes that clients put inside others (`key` is then -1)."""

    __abstract__ = True
    api_key: ClassVar[int]
    version_first: ClassVar[int]
    version_last: ClassVar[int]
    flexible_from: ClassVar[int]

    def __init_subclass__(cls, *, key: int, first: int, last: int, flexible: int = 1 << 15) -> None:
        cls.api_key = key
        cls.version_first = first
        cls.version_last = last
        cls.flexible_from = flexible


def _alike(mine: Any, other: Any) -> bool:
    """Lists and tuples of equal things are alike: handlers give either."""
    if isinstance(mine, list | tuple) and isinstance(other, list | tuple):
        return len(mine) == len(other) and all(map(_alike, mine, other))
    return bool(mine == other)


def _init_of(facts: dict[str, FieldFacts]) -> Any:
    names = list(facts)
    arguments = ", ".join(f"{name}=_{name}" for name in names)
    body = "; ".join(f"self.{name} = {name}" for name in names)
    space = {f"_{name}": facts[name].default for name in names}
    exec(f"def __init__(self, *, {arguments}): {body}", space)  # noqa: S102 - our own names only
    return space["__init__"]
