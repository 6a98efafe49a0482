"""Every message in every version that kio knows, both ways: kio is the other opinion about Kafka's messages.

kio has one class per version; ours serve all. Its fields stand in the order of the wire, as ours do, so the two are
walked side by side. It also has its own ideas of durations, times, ids and error codes, which are undone here.
"""

import datetime as dt
import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from importlib import import_module
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from runnel.codec.apis import APIS, NEVER
from runnel.codec.declare import NO_UUID, Message, Struct
from runnel.codec.shapes import Shape, shapes_of
from runnel.codec.wire import decode_bare, encode_bare

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MS = dt.timedelta(milliseconds=1)


def kio_class(module: str, version: int, kind: EntityType) -> Any:
    return load_entity_schema(module, version, kind)


def kio_versions(module: str, kind: EntityType) -> list[int]:
    return sorted(version for version, kinds in schema_name_map[module].items() if kind in kinds)


def kio_bytes(value: Any) -> bytes:
    out = BytesIO()
    entity_writer(type(value))(out, value)
    return out.getvalue()


def kio_value(kind: Any, data: bytes) -> Any:
    value, size = entity_reader(kind)(data, 0)
    assert size == len(data)
    return value


class Facts(typing.NamedTuple):
    """What kio says of one field."""

    name: str
    word: str | None
    struct: Any
    array: bool
    nullable: bool
    tag: int | None
    default: Any


@cache
def facts_of(kind: Any) -> tuple[Facts, ...]:
    hints = typing.get_type_hints(kind)
    found = []
    for field in fields(kind):
        hint, nullable, array = hints[field.name], False, False
        if typing.get_origin(hint) in (typing.Union, types.UnionType):
            nullable = True
            (hint,) = (arm for arm in typing.get_args(hint) if arm is not type(None))
        if typing.get_origin(hint) is tuple:
            array = True
            hint = typing.get_args(hint)[0]
        found.append(
            Facts(
                name=field.name,
                word=field.metadata.get("kafka_type"),
                struct=hint if is_dataclass(hint) else None,
                array=array,
                nullable=nullable,
                tag=field.metadata.get("tag"),
                default=field.default,
            )
        )
    return tuple(found)


WORDS = {
    "bool": st.booleans(),
    "int8": st.integers(-(1 << 7), (1 << 7) - 1),
    "int16": st.integers(-(1 << 15), (1 << 15) - 1),
    "uint16": st.integers(0, (1 << 16) - 1),
    "int32": st.integers(-(1 << 31), (1 << 31) - 1),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
    "float64": st.floats(allow_nan=False),
    "string": st.one_of(st.text(max_size=9), st.text("ä", min_size=60, max_size=140)),
    "bytes": st.binary(max_size=200),
    "records": st.binary(max_size=200),
    "error_code": st.sampled_from(list(ErrorCode)),
    # kio goes through floating point: keep to what it can hold.
    "timedelta_i32": st.integers(-(1 << 31), (1 << 31) - 1).map(lambda ms: ms * MS),
    "timedelta_i64": st.integers(-(1 << 40), 1 << 40).map(lambda ms: ms * MS),
    "datetime_i64": st.integers(0, 4_000_000_000).map(lambda seconds: EPOCH + seconds * 1000 * MS),
    "uuid": st.binary(min_size=16, max_size=16).filter(any).map(lambda raw: UUID(bytes=raw)),
}


@cache
def kio_values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of one of kio's classes."""
    return st.builds(kind, **{facts.name: _field_values(facts) for facts in facts_of(kind)})


def _field_values(facts: Facts) -> st.SearchStrategy[Any]:
    one = kio_values(facts.struct) if facts.struct else WORDS[facts.word]
    if facts.array:
        one = st.lists(one, max_size=3).map(tuple)
    # A tagged field says null by being away; kio knows that of the default alone.
    if facts.nullable and (facts.tag is None or facts.default is None):
        one = st.one_of(one, st.none())
    return one


def ours(value: Any, kind: type[Struct], version: int, *, flexible: bool) -> Struct:
    """The same value in our class; also holds our field names, tags and nullability against kio's."""
    theirs = facts_of(type(value))
    present = [shape for shape in shapes_of(kind) if shape.facts.exists_in(version)]
    assert len(theirs) == len(present), f"{kind.__name__} v{version}: {theirs} against {present}"
    values = {}
    for facts, shape in zip(theirs, present, strict=True):
        _agree(facts, shape, version, flexible=flexible)
        values[shape.name] = _our_value(getattr(value, facts.name), facts, shape, version, flexible=flexible)
    return kind(**values)


def _agree(facts: Facts, shape: Shape, version: int, *, flexible: bool) -> None:
    where = f"{facts} against {shape}"
    assert shape.name in {facts.name, f"{facts.name}_ms"}, where
    assert shape.array == facts.array, where
    assert (shape.facts.tag if shape.tagged_in(version) and flexible else None) == facts.tag, where
    if facts.word not in {"uuid", "datetime_i64"} and (facts.tag is None or facts.array):
        assert shape.nullable_in(version) == facts.nullable, where


def _our_value(value: Any, facts: Facts, shape: Shape, version: int, *, flexible: bool) -> Any:
    if facts.array:
        if value is None:
            return None
        return [_our_one(each, facts, shape, version, flexible=flexible) for each in value]
    return _our_one(value, facts, shape, version, flexible=flexible)


def _our_one(value: Any, facts: Facts, shape: Shape, version: int, *, flexible: bool) -> Any:
    if facts.word == "uuid":
        return NO_UUID if value is None else value.bytes
    if facts.word == "datetime_i64":
        return -1 if value is None else (value - EPOCH) // MS
    if value is None:
        return None
    if facts.word in {"timedelta_i32", "timedelta_i64"}:
        return value // MS
    if facts.struct is not None:
        # A tagged struct that holds nothing but defaults is not sent; with us it is then None.
        if facts.tag is not None and facts.default is not MISSING and value == facts.default:
            return None
        assert shape.struct is not None
        return ours(value, shape.struct, version, flexible=flexible)
    return value


def our_kind(module: str, name: str) -> type[Message]:
    found: type[Message] = getattr(import_module(f"runnel.codec.messages.{module}"), name)
    return found


CASES = [
    pytest.param(api.module, kind, api.name + kind.name.capitalize(), version, id=f"{api.name}-{kind.name}-v{version}")
    for api in APIS.values()
    for kind in (EntityType.request, EntityType.response)
    for version in range(max(api.first, 3) if api.key == 0 else api.first, api.last + 1)
]
EMBEDDED = [
    pytest.param(module, EntityType.data, name, version, id=f"{name}-v{version}")
    for module, name in (
        ("consumer_protocol_subscription", "ConsumerProtocolSubscription"),
        ("consumer_protocol_assignment", "ConsumerProtocolAssignment"),
    )
    for version in range(4)
]


@pytest.mark.parametrize(("module", "kind", "name", "version"), [*CASES, *EMBEDDED])
def test_our_bytes_and_kios_are_the_same(module, kind, name, version):
    ours_kind = our_kind("consumer_protocol" if kind is EntityType.data else module, name)
    theirs_kind = kio_class(module, version, kind)
    assert theirs_kind.__flexible__ == (version >= ours_kind.flexible_from)

    @settings(max_examples=4, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(theirs=kio_values(theirs_kind))
    def check(theirs):
        mine = ours(theirs, ours_kind, version, flexible=theirs_kind.__flexible__)
        data = encode_bare(mine, version)
        assert kio_value(theirs_kind, data) == theirs  # kio reads what we write
        kios = kio_bytes(theirs)
        read = decode_bare(ours_kind, version, kios)
        assert read == mine  # we read what kio writes
        assert encode_bare(read, version) == kios == data

    check()


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_the_table_of_apis_says_what_the_declarations_and_kio_say(api):
    for kind in (api.request(), api.response()):
        assert (api.key, api.first, api.last) == (kind.api_key, kind.version_first, kind.version_last)
        assert api.flexible == kind.flexible_from
        assert issubclass(kind, Message)
    for kind in (EntityType.request, EntityType.response):
        known = kio_versions(api.module, kind)
        assert known[-1] == api.last
        assert known[0] == (3 if api.key == 0 else api.first)
        flexible = [version for version in known if kio_class(api.module, version, kind).__flexible__]
        assert (flexible or [NEVER])[0] == api.flexible
        for version in known:
            schema = kio_class(api.module, version, kind)
            header = int(schema.__header_schema__.__version__)
            assert header == (api.request_header if kind is EntityType.request else api.response_header)(version)


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_a_field_that_a_version_lacks_is_left_out_and_comes_back_as_its_default(data):
    from runnel.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    version = data.draw(st.integers(4, 18))
    asked = FetchRequest(
        session_id=7, rack_id="a", topics=[FetchTopic(topic="t", topic_id=b"x" * 16, partitions=[FetchPartition()])]
    )
    read = decode_bare(FetchRequest, version, encode_bare(asked, version))
    assert read.session_id == (7 if version >= 7 else 0)
    assert read.rack_id == ("a" if version >= 11 else "")
    assert read.topics[0].topic == ("t" if version < 13 else "")
    assert read.topics[0].topic_id == (b"x" * 16 if version >= 13 else bytes(16))
