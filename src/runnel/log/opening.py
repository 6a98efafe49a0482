"""Objects in a store: the footer in one small ranged read where it fits, in two where it does not."""

from runnel.log.layout import TAIL_GUESS
from runnel.log.reader import Footer, Slice, check_slice, footer_length, parse_footer
from runnel.model import ObjectName
from runnel.world.objects.seam import Buffer, ObjectStore


async def read_footer(store: ObjectStore, name: ObjectName, size: int | None = None) -> Footer:
    """The footer of an object; its size is asked of the store where the caller does not know it."""
    if size is None:
        size = (await store.facts(name)).size
    guess = min(size, TAIL_GUESS)
    end = await store.read(name, size - guess, guess)
    needed = footer_length(name, end, size)
    if needed > guess:
        front = await store.read(name, size - needed, needed - guess)
        end = bytes(front) + bytes(end)
    return parse_footer(name, end, size)


async def read_slice(store: ObjectStore, footer: Footer, wanted: Slice) -> Buffer:
    """The bytes of one slice, checked."""
    data = await store.read(ObjectName(footer.name), wanted.place, wanted.length)
    check_slice(footer, wanted, data)
    return data
