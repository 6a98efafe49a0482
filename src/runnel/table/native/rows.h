/* Records of Kafka batches, found and laid out as Arrow columns, and the way back. */

#ifndef RUNNEL_TABLE_ROWS_H
#define RUNNEL_TABLE_ROWS_H

#include "common.h"

typedef struct {
    const uint8_t *at;
    size_t length;
    int64_t records, base_offset, last_delta, base_time, append_time; /* append_time < 0: each record has its own */
} Section;

typedef struct {
    int64_t records, headers;
    Buf offsets, times;                                /* int64 */
    Buf key_valid, key_ends, keys;                     /* bits, int32, bytes */
    Buf value_valid, value_ends, values;
    Buf header_ends;                                   /* int32, one list a record */
    Buf header_key_ends, header_keys;
    Buf header_value_valid, header_value_ends, header_values;
} Rows;

int rows_split(const Section *sections, int64_t count, int32_t *status, Rows *rows);
void rows_free(Rows *rows);

/* Records `from` to `to` of a struct array (offset, time, key, value, headers) as the body of one batch. */
int rows_join(const struct ArrowArray *rows, int64_t from, int64_t to, Buf *body);

#endif
