"""Avro, JSON and Protobuf in plain Python: the reference of the compiled reader, and its fallback.

`decode` gives a list of rows (dicts, with numbers where a column counts units: days, microseconds, enum symbols) and
the status of every value; `encode` takes such rows. Both follow native/avro.c, json.c and protobuf.c.
"""

from array import array
from typing import TYPE_CHECKING, Any

from runnel.table import avro_plain, json_plain, protobuf_plain
from runnel.table.reasons import Reason, Unreadable

if TYPE_CHECKING:
    from runnel.table.shapes import Format, Shape

_READERS = (avro_plain.read, json_plain.read, protobuf_plain.read)


def decode(fmt: "Format", shape: "Shape", values: Any, prefix: bytes) -> tuple[list[Any], bytes]:
    rows: list[Any] = []
    status = array("i")
    for value in values.to_pylist():
        try:
            row, unseen = _READERS[fmt](shape, _unframed(value, prefix))
        except Unreadable as bad:
            status.append(bad.reason)
        else:
            rows.append(row)
            status.append(-1 if unseen else 0)
    return rows, status.tobytes()


def _unframed(value: bytes | None, prefix: bytes) -> bytes:
    if value is None:
        raise Unreadable(Reason.NULL)
    if not value.startswith(prefix):
        raise Unreadable(Reason.PREFIX)
    return value[len(prefix) :]


def encode(fmt: "Format", shape: "Shape", rows: list[Any], prefix: bytes, style: int) -> list[bytes]:
    if fmt == 0:
        return [prefix + avro_plain.write(shape, row) for row in rows]
    if fmt == 1:
        return [prefix + json_plain.write(shape, row, style) for row in rows]
    return [prefix + protobuf_plain.write(shape, row) for row in rows]
