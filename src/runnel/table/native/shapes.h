/* A shape is a schema turned into a tree of columns: the three formats read into it and write out of Arrow by it. */

#ifndef RUNNEL_TABLE_SHAPES_H
#define RUNNEL_TABLE_SHAPES_H

#include "common.h"

/* As table/shapes.py numbers them. */
enum { HOLLOW, BOOL, INT32, INT64, FLOAT, DOUBLE, BYTES, STRING, FIXED, LIST, MAP, STRUCT, DECIMAL, UNION };

/* How a value lies in its format, beside its kind. */
enum {
    WIRE_PLAIN = 0,
    WIRE_INT = 1,      /* Avro: an int, widened */
    WIRE_RAW = 2,      /* JSON: any value, as its text */
    WIRE_BARE = 3,     /* JSON: the root is the value of its only column */
    WIRE_ZIGZAG = 4,   /* Protobuf */
    WIRE_FIXED32 = 5,
    WIRE_FIXED64 = 6,
    WIRE_UNSIGNED = 7, /* Protobuf: uint32 */
    WIRE_KIND = 0xff,
    WIRE_PACKED = 0x100,
    WIRE_REQUIRED = 0x200
};

#define NOT_NULLABLE (-1)
#define NULLABLE (-2) /* nullable, and the format has no index for it */
#define DEPTH_MAX 64

typedef struct Node {
    int kind, wire, null_at, kids_count;
    int64_t arg; /* scale of a time, size of a fixed, number of a Protobuf field */
    char *name;
    size_t name_length;
    struct Node **kids;
    int64_t rows;
    Buf valid, ends, data;
    int64_t *seen; /* Protobuf: where each kid lies in the message at hand */
} Node;

static inline int node_nullable(const Node *node) { return node->null_at != NOT_NULLABLE; }

/* A kid without a column: nulls, and structs of nothing else. */
int node_hollow(const Node *node);

int node_start(Node *node);                     /* the zero that opens every list of ends */
int node_null(Node *node);                      /* one row of nothing */
void node_cut(Node *node, int64_t rows);        /* back to so many rows */
void node_free(Node *node);

/* One row is there: its validity is noted and it is counted, after its data is in. */
static inline int node_count(Node *node) {
    if (node_nullable(node) && buf_bit(&node->valid, node->rows, 1))
        return BAD_MEMORY;
    node->rows++;
    return OK;
}

static inline int node_bool(Node *node, int value) {
    if (buf_bit(&node->data, node->rows, value))
        return BAD_MEMORY;
    return node_count(node);
}
static inline int node_i32(Node *node, int32_t value) {
    return buf_put(&node->data, &value, 4) ? BAD_MEMORY : node_count(node);
}
static inline int node_i64(Node *node, int64_t value) {
    return buf_put(&node->data, &value, 8) ? BAD_MEMORY : node_count(node);
}
static inline int node_fixed(Node *node, const void *value, size_t length) {
    return buf_put(&node->data, value, length) ? BAD_MEMORY : node_count(node);
}
static inline int node_span(Node *node, const uint8_t *span, size_t length) {
    if (length > BYTES_MAX || node->data.used + length > BYTES_MAX)
        return BAD_SIZE;
    if (node->kind == STRING && !is_utf8(span, length))
        return BAD_UTF8;
    if (buf_put(&node->data, span, length) || buf_i32(&node->ends, (int32_t)node->data.used))
        return BAD_MEMORY;
    return node_count(node);
}
/* A list or map whose elements are already in its kids. */
static inline int node_list(Node *node) {
    int64_t last = node->kids[0]->rows;
    if (last > (int64_t)BYTES_MAX)
        return BAD_SIZE;
    return buf_i32(&node->ends, (int32_t)last) ? BAD_MEMORY : node_count(node);
}

/* One record of a format into the columns of `node`, and a struct row out of Arrow into bytes. */
int avro_read(Node *root, const uint8_t *at, const uint8_t *end);
int avro_write(const Node *root, const struct ArrowArray *array, int64_t row, Buf *out);
int json_read(Node *root, const uint8_t *at, const uint8_t *end, int *unseen);
int json_write(const Node *root, const struct ArrowArray *array, int64_t row, Buf *out, int style);
int protobuf_read(Node *root, const uint8_t *at, const uint8_t *end);
int protobuf_write(const Node *root, const struct ArrowArray *array, int64_t row, Buf *out);

#endif
