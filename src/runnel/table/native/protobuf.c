/* Protobuf's wire format, by field numbers, into columns and back.

   A message is walked twice: once to find where each field lies last (the last one counts), once per field to put it
   into its column. Elements of a repeated field may lie apart, so that field walks the message again. */

#include "shapes.h"

enum { VARINT = 0, I64 = 1, LEN = 2, I32 = 5 };

static int read_message(Node *node, const uint8_t *at, const uint8_t *end, int depth);

static int skip_field(const uint8_t **at, const uint8_t *end, int type) {
    uint64_t length;
    int bad;
    switch (type) {
    case VARINT:
        return read_varint(at, end, &length);
    case I64:
    case I32:
        length = type == I64 ? 8 : 4;
        break;
    case LEN:
        if ((bad = read_varint(at, end, &length)))
            return bad;
        break;
    default:
        return BAD_SYNTAX; /* groups are long gone */
    }
    if (length > (uint64_t)(end - *at))
        return BAD_CUT;
    *at += length;
    return OK;
}

static int wire_type(const Node *node) {
    int wire = node->wire & WIRE_KIND;
    switch (node->kind) {
    case BYTES:
    case STRING:
    case STRUCT:
    case MAP:
        return LEN;
    case FLOAT:
        return I32;
    case DOUBLE:
        return I64;
    default:
        return wire == WIRE_FIXED32 ? I32 : wire == WIRE_FIXED64 ? I64 : VARINT;
    }
}

static int read_span(const uint8_t **at, const uint8_t *end, const uint8_t **span, uint64_t *length) {
    int bad = read_varint(at, end, length);
    if (bad)
        return bad;
    if (*length > (uint64_t)(end - *at))
        return BAD_CUT;
    *span = *at;
    *at += *length;
    return OK;
}

static int read_value(Node *node, const uint8_t **at, const uint8_t *end, int depth) {
    uint64_t raw = 0, length;
    const uint8_t *span;
    int bad, type = wire_type(node), wire = node->wire & WIRE_KIND;
    if (type == LEN) {
        if ((bad = read_span(at, end, &span, &length)))
            return bad;
        return node->kind == STRUCT ? read_message(node, span, span + length, depth + 1) : node_span(node, span, (size_t)length);
    }
    if (type == VARINT) {
        if ((bad = read_varint(at, end, &raw)))
            return bad;
    } else {
        size_t size = type == I64 ? 8 : 4;
        if ((size_t)(end - *at) < size)
            return BAD_CUT;
        memcpy(&raw, *at, size);
        *at += size;
    }
    switch (node->kind) {
    case BOOL:
        return node_bool(node, raw != 0);
    case INT32:
        return node_i32(node, wire == WIRE_ZIGZAG ? (int32_t)unzigzag((uint32_t)raw) : (int32_t)(uint32_t)raw);
    case INT64:
        if (wire == WIRE_UNSIGNED || wire == WIRE_FIXED32)
            raw &= UINT32_MAX;
        return node_i64(node, wire == WIRE_ZIGZAG ? unzigzag(raw) : (int64_t)raw);
    case DECIMAL: {
        uint64_t wide[2] = {raw, 0};
        return node_fixed(node, wide, 16);
    }
    default:
        return node_fixed(node, &raw, type == I64 ? 8 : 4);
    }
}

static int read_tag(const uint8_t **at, const uint8_t *end, int64_t *number, int *type) {
    uint64_t tag;
    int bad = read_varint(at, end, &tag);
    if (bad)
        return bad;
    *number = (int64_t)(tag >> 3);
    *type = (int)(tag & 7);
    return *number > 0 && *number < (1 << 29) ? OK : BAD_SYNTAX;
}

static int default_value(Node *node) {
    static const uint8_t zeros[16];
    switch (node->kind) {
    case BOOL:
        return node_bool(node, 0);
    case INT32:
    case FLOAT:
        return node_i32(node, 0);
    case INT64:
    case DOUBLE:
        return node_i64(node, 0);
    case DECIMAL:
        return node_fixed(node, zeros, 16);
    case BYTES:
    case STRING:
        return node_span(node, zeros, 0);
    case STRUCT:
        return read_message(node, zeros, zeros, DEPTH_MAX - 1);
    default:
        return BAD_TYPE;
    }
}

static int read_entry(Node *map, const uint8_t *at, const uint8_t *end, int depth) {
    const uint8_t *found[2] = {NULL, NULL};
    int bad, type;
    int64_t number;
    for (const uint8_t *p = at; p < end;) {
        if ((bad = read_tag(&p, end, &number, &type)))
            return bad;
        if ((number == 1 || number == 2) && type == wire_type(map->kids[number - 1]))
            found[number - 1] = p;
        if ((bad = skip_field(&p, end, type)))
            return bad;
    }
    for (int k = 0; k < 2; k++)
        if ((bad = found[k] ? read_value(map->kids[k], &found[k], end, depth) : default_value(map->kids[k])))
            return bad;
    return OK;
}

static int read_repeated(Node *node, const uint8_t *at, const uint8_t *end, int depth) {
    int bad, type;
    int64_t number;
    while (at < end) {
        if ((bad = read_tag(&at, end, &number, &type)))
            return bad;
        const uint8_t *span = at, *body;
        if ((bad = skip_field(&at, end, type)))
            return bad;
        if (number != node->arg)
            continue;
        uint64_t length;
        if (node->kind == MAP) {
            if (type != LEN || (bad = read_span(&span, end, &body, &length)))
                return type != LEN ? BAD_TYPE : bad;
            if ((bad = read_entry(node, body, body + length, depth + 1)))
                return bad;
        } else if (type == wire_type(node->kids[0])) {
            if ((bad = read_value(node->kids[0], &span, end, depth)))
                return bad;
        } else if (type == LEN) { /* packed */
            if ((bad = read_span(&span, end, &body, &length)))
                return bad;
            for (const uint8_t *stop = body + length; body < stop;)
                if ((bad = read_value(node->kids[0], &body, stop, depth)))
                    return bad;
        } else {
            return BAD_TYPE;
        }
    }
    return node_list(node);
}

static int read_message(Node *node, const uint8_t *at, const uint8_t *end, int depth) {
    int bad, type, expected = 0, count = node->kids_count;
    int64_t number;
    if (depth > DEPTH_MAX)
        return BAD_DEPTH;
    if (!node->seen && !(node->seen = malloc(sizeof *node->seen * (size_t)(count + 1))))
        return BAD_MEMORY;
    for (int k = 0; k < count; k++)
        node->seen[k] = -1;
    for (const uint8_t *p = at; p < end;) {
        if ((bad = read_tag(&p, end, &number, &type)))
            return bad;
        const uint8_t *value = p;
        if ((bad = skip_field(&p, end, type)))
            return bad;
        for (int k = 0; k < count; k++) {
            int place = expected + k < count ? expected + k : expected + k - count;
            Node *kid = node->kids[place];
            if (kid->arg != number)
                continue;
            if (kid->kind == LIST || kid->kind == MAP) {
                if (node->seen[place] < 0)
                    node->seen[place] = 0;
                expected = place;
            } else {
                if (type != wire_type(kid))
                    return BAD_TYPE;
                node->seen[place] = value - at;
                expected = place + 1 < count ? place + 1 : 0;
            }
            break;
        }
    }
    for (int k = 0; k < count; k++) {
        Node *kid = node->kids[k];
        const uint8_t *value = at + (node->seen[k] > 0 ? node->seen[k] : 0);
        if (kid->kind == LIST || kid->kind == MAP)
            bad = node->seen[k] < 0 ? node_list(kid) : read_repeated(kid, at, end, depth);
        else if (node->seen[k] >= 0)
            bad = read_value(kid, &value, end, depth);
        else if (kid->wire & WIRE_REQUIRED)
            bad = BAD_MISSING;
        else
            bad = node_nullable(kid) ? node_null(kid) : default_value(kid);
        if (bad)
            return bad;
    }
    return node_count(node);
}

int protobuf_read(Node *root, const uint8_t *at, const uint8_t *end) { return read_message(root, at, end, 0); }

static int write_message(const Node *node, const struct ArrowArray *array, int64_t row, Buf *out);

/* Room for a length of one byte is left; a longer one moves what was written. */
static int close_span(Buf *out, size_t start) {
    uint8_t length[10];
    size_t size = out->used - start, n = write_varint(length, size);
    if (buf_reserve(out, n))
        return BAD_MEMORY;
    memmove(out->at + start - 1 + n, out->at + start, size);
    memcpy(out->at + start - 1, length, n);
    out->used += n - 1;
    return OK;
}

static int write_value(const Node *node, const struct ArrowArray *array, int64_t row, Buf *out) {
    int wire = node->wire & WIRE_KIND, bad;
    int64_t at = array ? array->offset + row : row;
    size_t length;
    const uint8_t *span;
    switch (node->kind) {
    case BOOL:
        return buf_byte(out, (uint8_t)bit_at(array->buffers[1], at));
    case INT32: {
        int32_t value = arrow_i32(array, row);
        if (wire == WIRE_FIXED32)
            return buf_put(out, &value, 4);
        return buf_varint(out, wire == WIRE_ZIGZAG ? (uint32_t)zigzag(value) : (uint64_t)(int64_t)value);
    }
    case INT64: {
        int64_t value = arrow_i64(array, row);
        if (wire == WIRE_FIXED32 || wire == WIRE_FIXED64)
            return buf_put(out, &value, wire == WIRE_FIXED32 ? 4 : 8);
        return buf_varint(out, wire == WIRE_ZIGZAG ? zigzag(value) : (uint64_t)value);
    }
    case FLOAT:
        return buf_put(out, (const uint8_t *)array->buffers[1] + at * 4, 4);
    case DOUBLE:
        return buf_put(out, (const uint8_t *)array->buffers[1] + at * 8, 8);
    case DECIMAL: {
        uint64_t value;
        memcpy(&value, (const uint8_t *)array->buffers[1] + at * 16, 8);
        return wire == WIRE_FIXED64 ? buf_put(out, &value, 8) : buf_varint(out, value);
    }
    case BYTES:
    case STRING:
        span = arrow_bytes(array, row, &length);
        return buf_varint(out, length) ? BAD_MEMORY : buf_put(out, span, length);
    default: {
        if (buf_byte(out, 0))
            return BAD_MEMORY;
        size_t start = out->used;
        return (bad = write_message(node, array, row, out)) ? bad : close_span(out, start);
    }
    }
}

static int write_tag(Buf *out, int64_t number, int type) { return buf_varint(out, (uint64_t)number << 3 | (uint64_t)type); }

static int write_repeated(const Node *node, const struct ArrowArray *array, int64_t row, Buf *out) {
    int64_t from = arrow_i32(array, row), to = arrow_i32(array, row + 1);
    const struct ArrowArray *items = array->children[0];
    int bad = OK;
    if (from == to)
        return OK;
    int packed = node->kind == LIST && node->wire & WIRE_PACKED;
    size_t start = 0;
    if (packed) {
        if (write_tag(out, node->arg, LEN) || buf_byte(out, 0))
            return BAD_MEMORY;
        start = out->used;
    }
    for (int64_t i = from; !bad && i < to; i++) {
        if (node->kind == MAP) {
            if (write_tag(out, node->arg, LEN) || buf_byte(out, 0))
                return BAD_MEMORY;
            start = out->used;
            for (int k = 0; !bad && k < 2; k++) {
                const Node *kid = node->kids[k];
                if (write_tag(out, k + 1, wire_type(kid)))
                    return BAD_MEMORY;
                bad = write_value(kid, node_hollow(kid) ? NULL : items->children[k], items->offset + i, out);
            }
            if (!bad)
                bad = close_span(out, start);
        } else {
            if (!packed && write_tag(out, node->arg, wire_type(node->kids[0])))
                return BAD_MEMORY;
            bad = write_value(node->kids[0], items, i, out);
        }
    }
    return bad ? bad : packed ? close_span(out, start) : OK;
}

static int is_default(const Node *node, const struct ArrowArray *array, int64_t row) {
    static const uint8_t zeros[16];
    int64_t at = array->offset + row;
    const uint8_t *data = array->buffers[1];
    size_t length;
    switch (node->kind) {
    case BOOL:
        return !bit_at(data, at);
    case INT32:
    case FLOAT:
        return !memcmp(data + at * 4, zeros, 4);
    case INT64:
    case DOUBLE:
        return !memcmp(data + at * 8, zeros, 8);
    case DECIMAL:
        return !memcmp(data + at * 16, zeros, 16);
    case BYTES:
    case STRING:
        arrow_bytes(array, row, &length);
        return !length;
    default:
        return 0;
    }
}

static int write_message(const Node *node, const struct ArrowArray *array, int64_t row, Buf *out) {
    int column = 0, bad;
    for (int k = 0; k < node->kids_count; k++) { /* in the order of their numbers, as every library writes them */
        const Node *kid = node->kids[k];
        if (node_hollow(kid))
            continue;
        const struct ArrowArray *values = array->children[column++];
        int64_t at = array->offset + row;
        if (!arrow_valid(values, at))
            continue;
        if (kid->kind == LIST || kid->kind == MAP) {
            if ((bad = write_repeated(kid, values, at, out)))
                return bad;
            continue;
        }
        if (!node_nullable(kid) && !(kid->wire & WIRE_REQUIRED) && is_default(kid, values, at))
            continue;
        if (write_tag(out, kid->arg, wire_type(kid)))
            return BAD_MEMORY;
        if ((bad = write_value(kid, values, at, out)))
            return bad;
    }
    return OK;
}

int protobuf_write(const Node *root, const struct ArrowArray *array, int64_t row, Buf *out) {
    return write_message(root, array, row, out);
}
