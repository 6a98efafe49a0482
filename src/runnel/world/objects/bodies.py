"""Bodies: one run of bytes, or several that are written one after another."""

from collections.abc import Sequence

from runnel.world.objects.seam import Body, Buffer


def buffers_of(body: Body) -> Sequence[Buffer]:
    """The buffers of a body, without copying."""
    return (body,) if isinstance(body, bytes | bytearray | memoryview) else body


def size_of(body: Body) -> int:
    return sum(buffer.nbytes if isinstance(buffer, memoryview) else len(buffer) for buffer in buffers_of(body))


def copy_of(body: Body) -> bytes:
    """The bytes of a body as they are now; callers recycle their buffers once `put_new` is over."""
    return body if isinstance(body, bytes) else b"".join(buffers_of(body))
