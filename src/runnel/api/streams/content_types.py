"""Content types: fixed when a stream is made, compared without their parameters and without regard to case."""

import re

DEFAULT = "application/octet-stream"
TYPE_CHARACTERS_MAX = 255
_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+[ \t]*(;[ -~]*)?\Z", re.ASCII)


def media_type(text: str) -> str:
    """`Application/JSON; charset=utf-8` is `application/json`."""
    return text.partition(";")[0].strip().lower()


def created_type(text: str | None) -> str:
    """The type of a new stream: what was asked for, or the default if that is nothing that could be a type."""
    text = (text or "").strip()
    return text if len(text) <= TYPE_CHARACTERS_MAX and _TYPE.match(text) else DEFAULT


def same_type(one: str, other: str) -> bool:
    return one == other or media_type(one) == media_type(other)


def is_json(text: str) -> bool:
    return media_type(text) == "application/json"


def is_text(text: str) -> bool:
    """Whether the payload can stand in an event stream as it is; everything else goes as base64."""
    media = media_type(text)
    return media.startswith("text/") or media == "application/json"
