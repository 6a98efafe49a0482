/* Record boundaries are varints, so only a walk finds them; this is that walk.

   A batch is first walked without keeping anything: it is taken whole or not at all, so a poisoned batch leaves no
   half of itself in the columns. The second walk copies and need not check again. */

#include "rows.h"

#define TIME_MAX (INT64_MAX / 1000) /* tables count microseconds */

typedef struct {
    int32_t offset_delta;
    int64_t time_delta;
    const uint8_t *key, *value, *headers; /* headers: just behind their count */
    int32_t key_length, value_length, header_count;
} Record;

static int read_span(const uint8_t **at, const uint8_t *end, int32_t least, const uint8_t **span, int32_t *length) {
    int bad = read_int(at, end, length);
    if (bad)
        return bad;
    if (*length < least)
        return BAD_LENGTH;
    *span = *at;
    if (*length > 0) {
        if (end - *at < *length)
            return BAD_CUT;
        *at += *length;
    }
    return OK;
}

static int read_record(const uint8_t **at, const uint8_t *end, Record *record) {
    int32_t length;
    const uint8_t *span;
    int bad = read_span(at, end, 1, &span, &length);
    if (bad)
        return bad;
    const uint8_t *p = span + 1, *stop = span + length; /* the attributes of a record are not used by anyone */
    if ((bad = read_long(&p, stop, &record->time_delta)) || (bad = read_int(&p, stop, &record->offset_delta)) ||
        (bad = read_span(&p, stop, -1, &record->key, &record->key_length)) ||
        (bad = read_span(&p, stop, -1, &record->value, &record->value_length)) ||
        (bad = read_int(&p, stop, &record->header_count)))
        return bad;
    record->headers = p;
    if (record->header_count < 0)
        return BAD_LENGTH;
    for (int32_t i = 0; i < record->header_count; i++) {
        int32_t key_length, value_length;
        const uint8_t *key, *value;
        if ((bad = read_span(&p, stop, 0, &key, &key_length)) || (bad = read_span(&p, stop, -1, &value, &value_length)))
            return bad;
        if (!is_utf8(key, (size_t)key_length))
            return BAD_UTF8;
    }
    return p == stop ? OK : BAD_REST;
}

static inline int64_t record_time(const Section *section, const Record *record) {
    if (section->append_time >= 0)
        return section->append_time;
    return (int64_t)((uint64_t)section->base_time + (uint64_t)record->time_delta);
}

static int check_section(const Section *section) {
    const uint8_t *p = section->at, *end = p + section->length;
    int64_t before = -1;
    for (int64_t i = 0; i < section->records; i++) {
        Record record;
        int bad = read_record(&p, end, &record);
        if (bad)
            return bad;
        if (record.offset_delta <= before || record.offset_delta > section->last_delta)
            return BAD_OFFSET;
        before = record.offset_delta;
        int64_t time = record_time(section, &record);
        if (time > TIME_MAX || time < -1)
            return BAD_TIME;
    }
    return p == end ? OK : BAD_REST;
}

static int put_optional(Buf *valid, Buf *ends, Buf *data, int64_t n, const uint8_t *span, int32_t length) {
    if (buf_bit(valid, n, length >= 0))
        return BAD_MEMORY;
    if (length > 0) {
        if (data->used + (size_t)length > BYTES_MAX)
            return BAD_SIZE;
        if (buf_put(data, span, (size_t)length))
            return BAD_MEMORY;
    }
    return buf_i32(ends, (int32_t)data->used);
}

static int copy_section(const Section *section, Rows *rows) {
    const uint8_t *p = section->at, *end = p + section->length;
    for (int64_t i = 0; i < section->records; i++) {
        Record record;
        int bad = read_record(&p, end, &record);
        if (bad)
            return bad;
        int64_t n = rows->records;
        if (buf_i64(&rows->offsets, section->base_offset + record.offset_delta) ||
            buf_i64(&rows->times, record_time(section, &record)))
            return BAD_MEMORY;
        if ((bad = put_optional(&rows->key_valid, &rows->key_ends, &rows->keys, n, record.key, record.key_length)) ||
            (bad = put_optional(&rows->value_valid, &rows->value_ends, &rows->values, n, record.value,
                                record.value_length)))
            return bad;
        const uint8_t *h = record.headers;
        for (int32_t k = 0; k < record.header_count; k++) {
            int32_t key_length, value_length;
            const uint8_t *key, *value;
            if ((bad = read_span(&h, p, 0, &key, &key_length)) || (bad = read_span(&h, p, -1, &value, &value_length)))
                return bad;
            if (rows->header_keys.used + (size_t)key_length > BYTES_MAX)
                return BAD_SIZE;
            if (buf_put(&rows->header_keys, key, (size_t)key_length) ||
                buf_i32(&rows->header_key_ends, (int32_t)rows->header_keys.used))
                return BAD_MEMORY;
            if ((bad = put_optional(&rows->header_value_valid, &rows->header_value_ends, &rows->header_values,
                                    rows->headers, value, value_length)))
                return bad;
            rows->headers++;
        }
        if (buf_i32(&rows->header_ends, (int32_t)rows->headers))
            return BAD_MEMORY;
        rows->records++;
    }
    return OK;
}

int rows_split(const Section *sections, int64_t count, int32_t *status, Rows *rows) {
    size_t bytes = 0;
    int64_t records = 0;
    for (int64_t i = 0; i < count; i++) {
        status[i] = check_section(&sections[i]);
        if (!status[i]) {
            bytes += sections[i].length;
            records += sections[i].records;
        }
    }
    size_t n = (size_t)records;
    if (buf_reserve(&rows->offsets, n * 8) || buf_reserve(&rows->times, n * 8) || buf_reserve(&rows->values, bytes) ||
        buf_reserve(&rows->key_ends, n * 4 + 4) || buf_reserve(&rows->value_ends, n * 4 + 4) ||
        buf_reserve(&rows->header_ends, n * 4 + 4) || buf_i32(&rows->key_ends, 0) || buf_i32(&rows->value_ends, 0) ||
        buf_i32(&rows->header_ends, 0) || buf_i32(&rows->header_key_ends, 0) || buf_i32(&rows->header_value_ends, 0))
        return BAD_MEMORY;
    for (int64_t i = 0; i < count; i++) {
        if (status[i])
            continue;
        int bad = copy_section(&sections[i], rows);
        if (bad)
            return bad;
    }
    return OK;
}

void rows_free(Rows *rows) {
    Buf *all[] = {&rows->offsets,         &rows->times,       &rows->key_valid,          &rows->key_ends,
                  &rows->keys,            &rows->value_valid, &rows->value_ends,         &rows->values,
                  &rows->header_ends,     &rows->header_keys, &rows->header_key_ends,    &rows->header_value_valid,
                  &rows->header_value_ends, &rows->header_values};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        buf_free(all[i]);
}

static size_t span_size(int32_t length) { return varint_size(zigzag(length)) + (length > 0 ? (size_t)length : 0); }

static uint8_t *write_span(uint8_t *to, const uint8_t *span, int32_t length) {
    to += write_varint(to, zigzag(length));
    if (length > 0) {
        memcpy(to, span, (size_t)length);
        to += length;
    }
    return to;
}

static const uint8_t *optional_at(const struct ArrowArray *a, int64_t i, int32_t *length) {
    size_t bytes;
    if (!arrow_valid(a, i)) {
        *length = -1;
        return NULL;
    }
    const uint8_t *span = arrow_bytes(a, i, &bytes);
    *length = (int32_t)bytes;
    return span;
}

int rows_join(const struct ArrowArray *rows, int64_t from, int64_t to, Buf *body) {
    const struct ArrowArray *offsets = rows->children[0], *times = rows->children[1], *keys = rows->children[2],
                            *values = rows->children[3], *lists = rows->children[4];
    const struct ArrowArray *pairs = lists->children[0];
    const struct ArrowArray *names = pairs->children[0], *texts = pairs->children[1];
    from += rows->offset;
    to += rows->offset;
    int64_t base_offset = arrow_i64(offsets, from), base_time = arrow_i64(times, from);
    for (int64_t i = from; i < to; i++) {
        int32_t key_length, value_length, name_length, text_length;
        const uint8_t *key = optional_at(keys, i, &key_length), *value = optional_at(values, i, &value_length);
        int64_t time_delta = (int64_t)((uint64_t)arrow_i64(times, i) - (uint64_t)base_time);
        int64_t offset_delta = arrow_i64(offsets, i) - base_offset;
        int64_t first = arrow_i32(lists, i), last = arrow_i32(lists, i + 1);
        if (!arrow_valid(lists, i))
            last = first;
        size_t size = 1 + varint_size(zigzag(time_delta)) + varint_size(zigzag(offset_delta)) + span_size(key_length) +
                      span_size(value_length) + varint_size(zigzag(last - first));
        for (int64_t h = first + pairs->offset; h < last + pairs->offset; h++) {
            optional_at(names, h, &name_length);
            optional_at(texts, h, &text_length);
            size += span_size(name_length) + span_size(text_length);
        }
        if (size > BYTES_MAX || body->used + size + 10 > BYTES_MAX)
            return BAD_SIZE;
        if (buf_reserve(body, size + 10))
            return BAD_MEMORY;
        uint8_t *p = body->at + body->used;
        p += write_varint(p, zigzag((int64_t)size));
        *p++ = 0;
        p += write_varint(p, zigzag(time_delta));
        p += write_varint(p, zigzag(offset_delta));
        p = write_span(p, key, key_length);
        p = write_span(p, value, value_length);
        p += write_varint(p, zigzag(last - first));
        for (int64_t h = first + pairs->offset; h < last + pairs->offset; h++) {
            const uint8_t *name = optional_at(names, h, &name_length), *text = optional_at(texts, h, &text_length);
            p = write_span(p, name, name_length);
            p = write_span(p, text, text_length);
        }
        body->used = (size_t)(p - body->at);
    }
    return OK;
}
