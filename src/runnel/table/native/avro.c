/* Avro's binary encoding, read by the writer's schema straight into columns, and written from them. */

#include "shapes.h"

static int read_value(Node *node, const uint8_t **at, const uint8_t *end);

static int read_scaled(Node *node, const uint8_t **at, const uint8_t *end) {
    int64_t value;
    int bad = read_long(at, end, &value);
    if (bad)
        return bad;
    if ((node->wire & WIRE_KIND) == WIRE_INT && (value < INT32_MIN || value > INT32_MAX))
        return BAD_RANGE;
    if (node->arg > 1 && __builtin_mul_overflow(value, node->arg, &value))
        return BAD_TIME;
    return node_i64(node, value);
}

static int read_decimal(Node *node, const uint8_t **at, const uint8_t *end) {
    int64_t length = node->arg;
    int bad = length ? OK : read_long(at, end, &length);
    if (bad)
        return bad;
    if (length < 0)
        return BAD_LENGTH;
    if (end - *at < length)
        return BAD_CUT;
    const uint8_t *p = *at;
    uint8_t little[16];
    uint8_t sign = length && (p[0] & 0x80) ? 0xff : 0;
    memset(little, sign, sizeof little);
    for (int64_t i = 0; i < length; i++) {
        uint8_t byte = p[length - 1 - i];
        if (i < 16)
            little[i] = byte;
        else if (byte != sign)
            return BAD_RANGE;
    }
    if (length >= 16 && (little[15] & 0x80) != (sign & 0x80))
        return BAD_RANGE;
    *at += length;
    return node_fixed(node, little, 16);
}

static int read_blocks(Node *node, const uint8_t **at, const uint8_t *end) {
    for (;;) {
        int64_t count, size;
        int bad = read_long(at, end, &count);
        if (bad)
            return bad;
        if (count == 0)
            return node_list(node);
        if (count < 0) {
            if (count == INT64_MIN)
                return BAD_LENGTH;
            count = -count;
            if ((bad = read_long(at, end, &size)))
                return bad;
        }
        /* elements of nothing (null, empty records) take no bytes: a count alone must not fill the memory */
        if (count > end - *at && count > 4096)
            return BAD_LENGTH;
        for (int64_t i = 0; i < count; i++)
            for (int k = 0; k < node->kids_count; k++)
                if ((bad = read_value(node->kids[k], at, end)))
                    return bad;
    }
}

static int read_union(Node *node, const uint8_t **at, const uint8_t *end) {
    int64_t branch;
    int bad = read_long(at, end, &branch);
    if (bad)
        return bad;
    if (branch < 0 || branch >= node->kids_count)
        return BAD_INDEX;
    for (int k = 0; k < node->kids_count; k++) {
        bad = k == branch ? read_value(node->kids[k], at, end) : node_null(node->kids[k]);
        if (bad)
            return bad;
    }
    return node_i32(node, (int32_t)branch);
}

static int read_value(Node *node, const uint8_t **at, const uint8_t *end) {
    int bad;
    int64_t number;
    if (node->null_at >= 0) {
        if ((bad = read_long(at, end, &number)))
            return bad;
        if (number == node->null_at)
            return node_null(node);
        if (number != 1 - node->null_at)
            return BAD_INDEX;
    }
    switch (node->kind) {
    case HOLLOW:
        return node_count(node);
    case BOOL:
        if (*at >= end)
            return BAD_CUT;
        if (**at > 1)
            return BAD_RANGE;
        return node_bool(node, *(*at)++);
    case INT32:
        if ((bad = read_long(at, end, &number)))
            return bad;
        if (number < INT32_MIN || number > INT32_MAX)
            return BAD_RANGE;
        if (node->arg && (number < 0 || number >= node->arg)) /* an enum of so many symbols */
            return BAD_INDEX;
        return node_i32(node, (int32_t)number);
    case INT64:
        return read_scaled(node, at, end);
    case FLOAT:
    case DOUBLE:
    case FIXED: {
        int64_t size = node->kind == FLOAT ? 4 : node->kind == DOUBLE ? 8 : node->arg;
        if (end - *at < size)
            return BAD_CUT;
        *at += size;
        return node_fixed(node, *at - size, (size_t)size);
    }
    case BYTES:
    case STRING:
        if ((bad = read_long(at, end, &number)))
            return bad;
        if (number < 0)
            return BAD_LENGTH;
        if (end - *at < number)
            return BAD_CUT;
        *at += number;
        return node_span(node, *at - number, (size_t)number);
    case LIST:
    case MAP:
        return read_blocks(node, at, end);
    case STRUCT:
        for (int k = 0; k < node->kids_count; k++)
            if ((bad = read_value(node->kids[k], at, end)))
                return bad;
        return node_count(node);
    case DECIMAL:
        return read_decimal(node, at, end);
    default:
        return read_union(node, at, end);
    }
}

int avro_read(Node *root, const uint8_t *at, const uint8_t *end) {
    int bad = read_value(root, &at, end);
    return bad ? bad : at == end ? OK : BAD_REST;
}

static int write_value(const Node *node, const struct ArrowArray *array, int64_t row, Buf *out);

static int write_decimal(const Node *node, const struct ArrowArray *array, int64_t row, Buf *out) {
    const uint8_t *little = (const uint8_t *)array->buffers[1] + (array->offset + row) * 16;
    int64_t length = node->arg;
    if (!length) {
        uint8_t sign = little[15] & 0x80 ? 0xff : 0;
        length = 16;
        while (length > 1 && little[length - 1] == sign && (little[length - 2] & 0x80) == (sign & 0x80))
            length--;
        if (buf_long(out, length))
            return BAD_MEMORY;
    }
    if (buf_reserve(out, (size_t)length))
        return BAD_MEMORY;
    for (int64_t i = length - 1; i >= 0; i--)
        out->at[out->used++] = i < 16 ? little[i] : (little[15] & 0x80 ? 0xff : 0);
    return OK;
}

static int write_struct(const Node *node, const struct ArrowArray *array, int64_t row, Buf *out) {
    int column = 0;
    for (int k = 0; k < node->kids_count; k++) {
        int hollow = node_hollow(node->kids[k]);
        int bad = write_value(node->kids[k], hollow ? NULL : array->children[column++], array ? array->offset + row : row, out);
        if (bad)
            return bad;
    }
    return OK;
}

static int write_blocks(const Node *node, const struct ArrowArray *array, int64_t row, Buf *out) {
    int64_t first = arrow_i32(array, row), last = arrow_i32(array, row + 1);
    const struct ArrowArray *items = array->children[0];
    if (last > first) {
        if (buf_long(out, last - first))
            return BAD_MEMORY;
        for (int64_t i = first; i < last; i++) {
            int bad = OK;
            if (node->kind == MAP)
                for (int k = 0; !bad && k < 2; k++)
                    bad = write_value(node->kids[k], node_hollow(node->kids[k]) ? NULL : items->children[k], items->offset + i, out);
            else
                bad = write_value(node->kids[0], node_hollow(node->kids[0]) ? NULL : items, i, out);
            if (bad)
                return bad;
        }
    }
    return buf_long(out, 0);
}

static int write_union(const Node *node, const struct ArrowArray *array, int64_t row, Buf *out) {
    int64_t at = array->offset + row;
    int64_t tag = arrow_i32(array->children[0], at);
    if (tag < 0 || tag >= node->kids_count)
        return BAD_INDEX;
    int column = 1;
    for (int64_t k = 0; k < tag; k++)
        column += !node_hollow(node->kids[k]);
    if (buf_long(out, tag))
        return BAD_MEMORY;
    const Node *kid = node->kids[tag];
    return write_value(kid, node_hollow(kid) ? NULL : array->children[column], at, out);
}

static int write_value(const Node *node, const struct ArrowArray *array, int64_t row, Buf *out) {
    if (!array) { /* hollow: only its index is written */
        if (node->null_at >= 0)
            return buf_long(out, node->kind == HOLLOW ? 1 - node->null_at : node->null_at);
        return node->kind == STRUCT ? write_struct(node, NULL, row, out) : OK;
    }
    if (node->null_at >= 0) {
        int valid = arrow_valid(array, row);
        if (buf_long(out, valid ? 1 - node->null_at : node->null_at))
            return BAD_MEMORY;
        if (!valid)
            return OK;
    }
    size_t length;
    const uint8_t *span;
    int64_t number;
    switch (node->kind) {
    case BOOL:
        return buf_byte(out, (uint8_t)bit_at(array->buffers[1], array->offset + row));
    case INT32:
        return buf_long(out, arrow_i32(array, row));
    case INT64:
        number = arrow_i64(array, row);
        return buf_long(out, node->arg > 1 ? number / node->arg : number);
    case FLOAT:
    case DOUBLE:
    case FIXED:
        length = node->kind == FLOAT ? 4 : node->kind == DOUBLE ? 8 : (size_t)node->arg;
        return buf_put(out, (const uint8_t *)array->buffers[1] + (size_t)(array->offset + row) * length, length);
    case BYTES:
    case STRING:
        span = arrow_bytes(array, row, &length);
        return buf_long(out, (int64_t)length) ? BAD_MEMORY : buf_put(out, span, length);
    case LIST:
    case MAP:
        return write_blocks(node, array, row, out);
    case STRUCT:
        return write_struct(node, array, row, out);
    case DECIMAL:
        return write_decimal(node, array, row, out);
    default:
        return write_union(node, array, row, out);
    }
}

int avro_write(const Node *root, const struct ArrowArray *array, int64_t row, Buf *out) {
    return write_value(root, array, row, out);
}
