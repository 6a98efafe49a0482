/* Columns in the making. A record that turns out unreadable half-way is cut off again: the number of rows of a column
   says how long each of its buffers must be, so nothing has to be remembered beforehand. */

#include "shapes.h"

static size_t width_of(const Node *node) {
    switch (node->kind) {
    case INT32:
    case FLOAT:
    case UNION: /* the tag */
        return 4;
    case INT64:
    case DOUBLE:
        return 8;
    case DECIMAL:
        return 16;
    case FIXED:
        return (size_t)node->arg;
    default:
        return 0;
    }
}

int node_hollow(const Node *node) {
    if (node->kind == HOLLOW)
        return 1;
    if (node->kind != STRUCT)
        return 0;
    for (int k = 0; k < node->kids_count; k++)
        if (!node_hollow(node->kids[k]))
            return 0;
    return 1;
}

int node_start(Node *node) {
    int has_ends = node->kind == BYTES || node->kind == STRING || node->kind == LIST || node->kind == MAP;
    if (has_ends && buf_i32(&node->ends, 0))
        return BAD_MEMORY;
    for (int k = 0; k < node->kids_count; k++)
        if (node_start(node->kids[k]))
            return BAD_MEMORY;
    return OK;
}

int node_null(Node *node) {
    static const uint8_t zeros[16];
    size_t width = width_of(node);
    int bad = OK;
    if (node_nullable(node) && buf_bit(&node->valid, node->rows, 0))
        return BAD_MEMORY;
    switch (node->kind) {
    case BOOL:
        bad = buf_bit(&node->data, node->rows, 0);
        break;
    case BYTES:
    case STRING:
        bad = buf_i32(&node->ends, (int32_t)node->data.used);
        break;
    case LIST:
    case MAP:
        bad = buf_i32(&node->ends, (int32_t)node->kids[0]->rows);
        break;
    case STRUCT:
    case UNION:
        for (int k = 0; !bad && k < node->kids_count; k++)
            bad = node_null(node->kids[k]);
        break;
    default:
        break;
    }
    for (size_t left = width; !bad && left > 0;) {
        size_t some = left < 16 ? left : 16;
        bad = buf_put(&node->data, zeros, some);
        left -= some;
    }
    node->rows++;
    return bad ? BAD_MEMORY : OK;
}

static void bits_cut(Buf *bits, int64_t rows) {
    size_t bytes = (size_t)((rows + 7) / 8);
    if (bits->used <= bytes && (rows & 7) == 0)
        return;
    if (bits->used > bytes)
        bits->used = bytes;
    if (rows & 7)
        bits->at[rows >> 3] &= (uint8_t)((1u << (rows & 7)) - 1);
}

void node_cut(Node *node, int64_t rows) {
    size_t n = (size_t)rows;
    /* kids may be ahead of a list whose row was never finished, so they are cut even where this node is short enough */
    if (node->valid.used)
        bits_cut(&node->valid, rows);
    node->rows = rows;
    switch (node->kind) {
    case BOOL:
        if (node->data.used)
            bits_cut(&node->data, rows);
        break;
    case BYTES:
    case STRING:
        node->ends.used = (n + 1) * 4;
        node->data.used = (size_t)((int32_t *)node->ends.at)[n];
        break;
    case LIST:
    case MAP:
        node->ends.used = (n + 1) * 4;
        for (int k = 0; k < node->kids_count; k++)
            node_cut(node->kids[k], ((int32_t *)node->ends.at)[n]);
        break;
    case STRUCT:
    case UNION:
        for (int k = 0; k < node->kids_count; k++)
            node_cut(node->kids[k], rows);
        break;
    default:
        break;
    }
    size_t width = width_of(node);
    if (width)
        node->data.used = n * width;
}

void node_free(Node *node) {
    if (!node)
        return;
    for (int k = 0; k < node->kids_count; k++)
        node_free(node->kids[k]);
    buf_free(&node->valid);
    buf_free(&node->ends);
    buf_free(&node->data);
    free(node->kids);
    free(node->name);
    free(node->seen);
    free(node);
}
