/* What every file of the compiled helper shares: growing buffers, varints, bits, UTF-8, Arrow's C data interface.

   Nothing here knows Python. Reading is always against an end pointer; a function that reads gives 0 when all is well
   and one of the codes below when not. The codes are part of the module's contract (reasons.py spells them out). */

#ifndef RUNNEL_TABLE_COMMON_H
#define RUNNEL_TABLE_COMMON_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    OK = 0,
    BAD_CUT = 1,        /* the bytes end too early */
    BAD_REST = 2,       /* bytes are left over */
    BAD_VARINT = 3,     /* a varint is too long or too large */
    BAD_LENGTH = 4,     /* a length is negative or does not fit */
    BAD_OFFSET = 5,     /* record offsets do not increase, or leave their batch */
    BAD_UTF8 = 6,       /* text is not UTF-8 */
    BAD_TIME = 7,       /* a time is outside of what a table can hold */
    BAD_INDEX = 8,      /* a branch of a union or a symbol that does not exist */
    BAD_RANGE = 9,      /* a number outside its type */
    BAD_TYPE = 10,      /* a value of another type than the schema says */
    BAD_SYNTAX = 11,    /* not JSON, or a wire type that does not exist */
    BAD_DEPTH = 12,     /* nested too deeply */
    BAD_PREFIX = 13,    /* framed for another schema */
    BAD_MISSING = 14,   /* a required field is missing */
    BAD_NULL = 15,      /* no value at all */
    BAD_MEMORY = 100,   /* no memory; ends the whole call */
    BAD_SIZE = 101      /* more than 2 GiB in one column; ends the whole call */
};

#define BYTES_MAX ((size_t)0x7fffffff)

typedef struct {
    uint8_t *at;
    size_t used, room;
} Buf;

static inline int buf_reserve(Buf *buf, size_t more) {
    if (buf->room - buf->used >= more)
        return OK;
    size_t room = buf->room ? buf->room : 256;
    while (room - buf->used < more) {
        if (room > SIZE_MAX / 4)
            return BAD_MEMORY;
        room *= 2;
    }
    uint8_t *at = realloc(buf->at, room);
    if (!at)
        return BAD_MEMORY;
    buf->at = at;
    buf->room = room;
    return OK;
}

static inline int buf_put(Buf *buf, const void *data, size_t length) {
    if (buf_reserve(buf, length))
        return BAD_MEMORY;
    if (length)
        memcpy(buf->at + buf->used, data, length);
    buf->used += length;
    return OK;
}

static inline int buf_byte(Buf *buf, uint8_t value) { return buf_put(buf, &value, 1); }
static inline int buf_i32(Buf *buf, int32_t value) { return buf_put(buf, &value, 4); }
static inline int buf_i64(Buf *buf, int64_t value) { return buf_put(buf, &value, 8); }

static inline void buf_free(Buf *buf) {
    free(buf->at);
    memset(buf, 0, sizeof *buf);
}

/* Bit `n` of a bitmap that grows bit by bit. */
static inline int buf_bit(Buf *buf, int64_t n, int value) {
    if ((n & 7) == 0 && buf_byte(buf, 0))
        return BAD_MEMORY;
    if (value)
        buf->at[n >> 3] |= (uint8_t)(1u << (n & 7));
    return OK;
}

static inline int bit_at(const uint8_t *bits, int64_t n) { return (bits[n >> 3] >> (n & 7)) & 1; }

/* Unsigned base-128, least significant group first: Avro, Protobuf and Kafka all use it. */
static inline int read_varint(const uint8_t **at, const uint8_t *end, uint64_t *value) {
    const uint8_t *p = *at;
    if (p < end && *p < 0x80) {
        *value = *p;
        *at = p + 1;
        return OK;
    }
    uint64_t result = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (p >= end)
            return BAD_CUT;
        uint8_t byte = *p++;
        if (shift == 63 && byte > 1)
            return BAD_VARINT;
        result |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = result;
            *at = p;
            return OK;
        }
    }
    return BAD_VARINT;
}

static inline int64_t unzigzag(uint64_t value) { return (int64_t)(value >> 1) ^ -(int64_t)(value & 1); }
static inline uint64_t zigzag(int64_t value) { return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63); }

static inline int read_long(const uint8_t **at, const uint8_t *end, int64_t *value) {
    uint64_t raw;
    int bad = read_varint(at, end, &raw);
    if (!bad)
        *value = unzigzag(raw);
    return bad;
}

/* A signed varint that must fit 32 bits. */
static inline int read_int(const uint8_t **at, const uint8_t *end, int32_t *value) {
    uint64_t raw;
    int bad = read_varint(at, end, &raw);
    if (bad)
        return bad;
    if (raw > UINT32_MAX)
        return BAD_VARINT;
    *value = (int32_t)unzigzag(raw);
    return OK;
}

/* At most ten bytes; the caller has made room. */
static inline size_t write_varint(uint8_t *to, uint64_t value) {
    size_t n = 0;
    while (value >= 0x80) {
        to[n++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    to[n++] = (uint8_t)value;
    return n;
}

static inline size_t varint_size(uint64_t value) {
    size_t n = 1;
    while (value >= 0x80) {
        value >>= 7;
        n++;
    }
    return n;
}

static inline int buf_varint(Buf *buf, uint64_t value) {
    if (buf_reserve(buf, 10))
        return BAD_MEMORY;
    buf->used += write_varint(buf->at + buf->used, value);
    return OK;
}

static inline int buf_long(Buf *buf, int64_t value) { return buf_varint(buf, zigzag(value)); }

/* Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. */
static inline int is_utf8(const uint8_t *p, size_t length) {
    const uint8_t *end = p + length;
    while (p < end) {
        uint64_t eight;
        while (end - p >= 8 && (memcpy(&eight, p, 8), (eight & 0x8080808080808080u) == 0))
            p += 8;
        if (p >= end)
            break;
        uint8_t c = *p;
        if (c < 0x80) {
            p++;
        } else if (c >= 0xc2 && c < 0xe0) {
            if (end - p < 2 || (p[1] & 0xc0) != 0x80)
                return 0;
            p += 2;
        } else if ((c & 0xf0) == 0xe0) {
            if (end - p < 3 || (p[1] & 0xc0) != 0x80 || (p[2] & 0xc0) != 0x80)
                return 0;
            if ((c == 0xe0 && p[1] < 0xa0) || (c == 0xed && p[1] >= 0xa0))
                return 0;
            p += 3;
        } else if (c >= 0xf0 && c < 0xf5) {
            if (end - p < 4 || (p[1] & 0xc0) != 0x80 || (p[2] & 0xc0) != 0x80 || (p[3] & 0xc0) != 0x80)
                return 0;
            if ((c == 0xf0 && p[1] < 0x90) || (c == 0xf4 && p[1] >= 0x90))
                return 0;
            p += 4;
        } else {
            return 0;
        }
    }
    return 1;
}

/* The Arrow C data interface, as its specification gives it. */
struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

static inline int arrow_valid(const struct ArrowArray *a, int64_t i) {
    const uint8_t *bits = a->n_buffers ? a->buffers[0] : NULL;
    return a->null_count == 0 || !bits || bit_at(bits, a->offset + i);
}

static inline int64_t arrow_i64(const struct ArrowArray *a, int64_t i) {
    return ((const int64_t *)a->buffers[1])[a->offset + i];
}

static inline int32_t arrow_i32(const struct ArrowArray *a, int64_t i) {
    return ((const int32_t *)a->buffers[1])[a->offset + i];
}

/* One element of a binary or string array with 32-bit offsets. */
static inline const uint8_t *arrow_bytes(const struct ArrowArray *a, int64_t i, size_t *length) {
    const int32_t *offsets = (const int32_t *)a->buffers[1] + a->offset + i;
    *length = (size_t)(offsets[1] - offsets[0]);
    return *length ? (const uint8_t *)a->buffers[2] + offsets[0] : (const uint8_t *)"";
}

#endif
