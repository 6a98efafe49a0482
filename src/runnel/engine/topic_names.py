"""Streams with names of their own, as Kafka clients name them.

A stream `bucket/path` is the topic `bucket.path`, with one partition. Kafka allows letters, digits, '.', '_' and '-' in
names; every other byte of a path, and a '.' that follows a '.', is written as `..` and two digits: `a/b` is `a..2Fb`. A
bucket has no '.', so the first one ends it, and every topic name leads back to one stream. A name that would be longer
than Kafka allows is none: such a stream is not there for Kafka clients.

Such a topic is made up for who asks. One that is given a setting becomes a topic like any (`Topics.alter`): it stands in
listings, and can be a table. It keeps what it was made up with: nothing is deleted by age, and no table unless asked for.
"""

import re

from runnel.metadata.stream import Stream
from runnel.metadata.topics import Topic
from runnel.model import StreamId

NAME_LENGTH_MAX = 249
ID_PREFIX = b"RunnelS\x80"
"""Topic ids of streams: this and the stream's id. Version bits as in a UUID that nobody drew."""
FORK_PREFIX = b"RunnelF\x80"
"""The same for forks, whose first records are another stream's."""

_ESCAPED = re.compile(rb"\.\.([0-9A-F]{2})")
_ILLEGAL = re.compile(rb"[^a-zA-Z0-9._-]|(?<=\.)\.")


def topic_name(stream_name: str) -> str | None:
    """The topic that a stream is for Kafka clients."""
    bucket, _, path = stream_name.partition("/")
    escaped = _ILLEGAL.sub(lambda found: b"..%02X" % found[0][0], path.encode()).decode()
    name = f"{bucket}.{escaped}"
    return name if len(name) <= NAME_LENGTH_MAX else None


def stream_name(topic: str) -> str | None:
    """The stream that a topic's name stands for; None if it can stand for none."""
    bucket, _, escaped = topic.partition(".")
    if not bucket or not escaped or not topic.isascii():
        return None
    try:
        path = _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), escaped.encode()).decode()
    except UnicodeDecodeError:
        return None
    name = f"{bucket}/{path}"
    return name if topic_name(name) == topic else None  # one spelling each


def topic_of(stream: Stream) -> Topic | None:
    """A stream as a topic with one partition."""
    assert stream.traits is not None, "a stream with a name has traits"
    name = topic_name(stream.traits.name)
    if name is None:
        return None
    prefix = ID_PREFIX if stream.traits.fork is None else FORK_PREFIX
    settings = {"retention.ms": "-1", "table.formats": ""}
    if stream.traits.content_type.partition(";")[0].strip().lower() == "application/json":
        settings["table.values"] = "json"
    return Topic(name, prefix + stream.id.to_bytes(8, "big"), [stream.id], settings, stream.traits.born_ms)


def stream_behind(topic_id: bytes) -> StreamId | None:
    """The stream that a topic id stands for, if it is one of these."""
    return StreamId(int.from_bytes(topic_id[8:], "big")) if topic_id.startswith((ID_PREFIX, FORK_PREFIX)) else None
