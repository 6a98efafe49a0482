"""Which names objects may have, and which prefixes can be the beginning of one.

The rule is narrow on purpose: a name is at once an S3 key, a path in a file system and a part of a URL, in all of
them without escaping, and its order as text is its order as UTF-8 bytes.
"""

import re

from runnel.errors import Refused
from runnel.model import ObjectName

NAME_BYTES_MAX = 512
PART_BYTES_MAX = 255  # what common file systems allow for one part of a path

_PART = re.compile(r"[A-Za-z0-9._=-]+", re.ASCII)
_BEGINNING = re.compile(r"[A-Za-z0-9._=/-]*", re.ASCII)


def check_name(name: ObjectName) -> None:
    """Refuse what cannot be the name of an object."""
    if len(name) > NAME_BYTES_MAX:
        raise Refused(f"object name {name[:40]!r}… has {len(name)} characters; {NAME_BYTES_MAX} are the most")
    for part in name.split("/"):
        if _PART.fullmatch(part) is None or part in {".", ".."}:
            raise Refused(f"object name {name!r} is wrong at {part!r}; parts are made of A-Z a-z 0-9 . _ = -")
        if len(part) > PART_BYTES_MAX:
            raise Refused(
                f"object name {name[:40]!r}… has a part of {len(part)} characters; {PART_BYTES_MAX} are the most"
            )


def is_part(text: str) -> bool:
    """Whether a name can have this part."""
    return len(text) <= PART_BYTES_MAX and _PART.fullmatch(text) is not None and text not in {".", ".."}


def is_name(text: str) -> bool:
    """Whether an object can have this name; buckets may hold things that others put there."""
    return len(text) <= NAME_BYTES_MAX and all(map(is_part, text.split("/")))


def check_beginning(text: str) -> None:
    """Refuse what no name begins with; the last part may be cut anywhere."""
    folder = text.rpartition("/")[0]
    if _BEGINNING.fullmatch(text) is None or len(text) > NAME_BYTES_MAX or text.startswith("/"):
        raise Refused(f"no object name can begin with {text[:NAME_BYTES_MAX]!r}")
    if folder:
        check_name(ObjectName(folder))
