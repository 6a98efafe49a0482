"""The C helper if this installation has one that fits, else None.

`pip install` builds `_compiled` where it finds a C compiler and goes on without where it does not. A build left over
from another version of the source is not used: both sides name the contract they keep.
"""

from typing import Any

CONTRACT = 2


def load() -> Any | None:
    """The compiled module, or None: then the plain versions serve, with the same results, ten to a hundred times slower."""
    try:
        from runnel.table import _compiled  # type: ignore[attr-defined]  # noqa: PLC0415  # it may not be there
    except ImportError:
        return None
    return _compiled if getattr(_compiled, "CONTRACT", 0) == CONTRACT else None


helper: Any | None = load()
