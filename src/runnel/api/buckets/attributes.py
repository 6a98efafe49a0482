"""Attributes: a little JSON that an application keeps beside a stream. `{"title": …, "metadata": {…}}`, nothing else.

What is stored is canonical (sorted, without white space), so that two spellings of one document are one document.
"""

import json
from typing import Any

from runnel.errors import Refused

ATTRIBUTES_BYTES_MAX = 16 * 1024
NOTHING = b""


def parse_attributes(body: bytes) -> bytes:
    """The canonical form of a document; an empty one is no bytes. Unknown members of the top level are left out."""
    if len(body) > ATTRIBUTES_BYTES_MAX:
        raise Refused(f"attributes have at most {ATTRIBUTES_BYTES_MAX} bytes, these {len(body)}")
    try:
        document: Any = json.loads(body.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(f"the attributes are not JSON: {str(error)[:120]}") from None
    if not isinstance(document, dict):
        raise Refused("the attributes are not a JSON object")
    kept: dict[str, Any] = {}
    if (title := document.get("title")) is not None:
        if not isinstance(title, str):
            raise Refused("the attribute 'title' is not a string")
        kept["title"] = title
    if (metadata := document.get("metadata")) is not None:
        if not isinstance(metadata, dict):
            raise Refused("the attribute 'metadata' is not an object")
        kept["metadata"] = metadata
    if not kept:
        return NOTHING
    canonical = json.dumps(kept, separators=(",", ":"), sort_keys=True).encode()
    if len(canonical) > ATTRIBUTES_BYTES_MAX:
        raise Refused(f"attributes have at most {ATTRIBUTES_BYTES_MAX} bytes, these {len(canonical)} when written out")
    return canonical


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def attributes_body(stored: bytes) -> bytes:
    return stored or b"{}"
