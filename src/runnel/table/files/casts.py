"""Arrays under other names and types of the same build: what the shape of a schema says, and what the table says.

The kids of both are in the same order. Names may differ anywhere; types where the table's is a wider one, or keeps the
same in a simpler type. `recast` therefore goes both ways without loss.
"""

import pyarrow as pa
import pyarrow.compute as pc


def recast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The same values as an array of type `wanted`."""
    if array.type.equals(wanted, check_metadata=True):
        return array
    if not pa.types.is_nested(wanted):
        return _leaf(array, wanted)
    if array.offset:
        array = pa.concat_arrays([array, array.slice(0, 0)])
    validity = array.buffers()[0]
    if pa.types.is_struct(wanted):
        kids = [recast(array.field(n), wanted.field(n).type) for n in range(wanted.num_fields)]
        return pa.Array.from_buffers(wanted, len(array), [validity], children=kids)
    ends = array.buffers()[1]
    if pa.types.is_map(wanted):
        pair = pa.struct([wanted.key_field, wanted.item_field])
        keys, items = recast(array.keys, wanted.key_type), recast(array.items, wanted.item_type)
        entries = pa.Array.from_buffers(pair, len(keys), [None], children=[keys, items])
        return pa.Array.from_buffers(wanted, len(array), [validity, ends], children=[entries])
    return pa.Array.from_buffers(
        wanted, len(array), [validity, ends], children=[recast(array.values, wanted.value_type)]
    )


def _leaf(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    mine = array.type
    if mine.equals(wanted):
        return array
    if pa.types.is_time(mine) or pa.types.is_time(wanted):
        return array.view(wanted)
    return pc.cast(array, wanted)
