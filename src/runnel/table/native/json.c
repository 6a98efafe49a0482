/* JSON objects into columns and back. A key is first looked for where the last record had it, so records of one
   producer cost one comparison a key. Numbers are read and written without any locale. */

#define _GNU_SOURCE
#include <locale.h>
#include <math.h>
#include <stdio.h>

#include "shapes.h"

enum { STYLE_SPACES = 1, STYLE_ASCII = 2, STYLE_NULLS = 4, STYLE_INTEGRAL = 8 };

typedef struct {
    const uint8_t *at, *end;
    Buf text; /* a string, unfolded */
    int unseen;
} Text;

static const double TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static void skip_space(Text *t) {
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t' || *t->at == '\r'))
        t->at++;
}

static int hex4(Text *t, unsigned *value) {
    if (t->end - t->at < 4)
        return BAD_CUT;
    *value = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c = *t->at++;
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0)
            return BAD_SYNTAX;
        *value = *value << 4 | (unsigned)digit;
    }
    return OK;
}

static int put_point(Buf *buf, unsigned c) {
    uint8_t b[4];
    size_t n = 0;
    if (c < 0x80) {
        b[n++] = (uint8_t)c;
    } else if (c < 0x800) {
        b[n++] = (uint8_t)(0xc0 | c >> 6);
        b[n++] = (uint8_t)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        b[n++] = (uint8_t)(0xe0 | c >> 12);
        b[n++] = (uint8_t)(0x80 | (c >> 6 & 63));
        b[n++] = (uint8_t)(0x80 | (c & 63));
    } else {
        b[n++] = (uint8_t)(0xf0 | c >> 18);
        b[n++] = (uint8_t)(0x80 | (c >> 12 & 63));
        b[n++] = (uint8_t)(0x80 | (c >> 6 & 63));
        b[n++] = (uint8_t)(0x80 | (c & 63));
    }
    return buf_put(buf, b, n);
}

static int read_escape(Text *t) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (t->at >= t->end)
        return BAD_CUT;
    uint8_t c = *t->at++;
    if (c != 'u') {
        const char *found = c ? strchr(from, c) : NULL;
        return found ? buf_byte(&t->text, (uint8_t)to[found - from]) : BAD_SYNTAX;
    }
    unsigned high, low;
    int bad = hex4(t, &high);
    if (bad)
        return bad;
    if (high >= 0xd800 && high < 0xdc00 && t->end - t->at >= 6 && t->at[0] == '\\' && t->at[1] == 'u') {
        const uint8_t *back = t->at;
        t->at += 2;
        if ((bad = hex4(t, &low)))
            return bad;
        if (low >= 0xdc00 && low < 0xe000)
            return put_point(&t->text, 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
        t->at = back;
    }
    /* half of a pair alone has no UTF-8; the original bytes are kept beside the row, as re-encoding differs */
    return put_point(&t->text, high >= 0xd800 && high < 0xe000 ? 0xfffd : high);
}

/* The string whose opening quote is just behind; its text is a span of the input, or of t->text if it has escapes. */
static int read_string(Text *t, const uint8_t **span, size_t *length) {
    const uint8_t *start = t->at;
    while (t->at < t->end && *t->at != '"' && *t->at != '\\' && *t->at >= 0x20)
        t->at++;
    if (t->at < t->end && *t->at == '"') {
        *span = start;
        *length = (size_t)(t->at++ - start);
        return OK;
    }
    t->text.used = 0;
    if (buf_put(&t->text, start, (size_t)(t->at - start)))
        return BAD_MEMORY;
    for (;;) {
        if (t->at >= t->end)
            return BAD_CUT;
        uint8_t c = *t->at++;
        if (c == '"')
            break;
        if (c < 0x20)
            return BAD_SYNTAX;
        int bad = c == '\\' ? read_escape(t) : buf_byte(&t->text, c);
        if (bad)
            return bad;
    }
    *span = t->text.at ? t->text.at : (const uint8_t *)"";
    *length = t->text.used;
    return OK;
}

static int take_word(Text *t, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n))
        return 0;
    t->at += n;
    return 1;
}

/* A number's text by JSON's grammar; `whole` if it has neither point nor exponent. */
static int number_span(Text *t, const uint8_t **span, int *whole) {
    *span = t->at;
    *whole = 1;
    if (t->at < t->end && *t->at == '-')
        t->at++;
    const uint8_t *digits = t->at;
    while (t->at < t->end && *t->at >= '0' && *t->at <= '9')
        t->at++;
    if (t->at == digits || (*digits == '0' && t->at - digits > 1))
        return BAD_SYNTAX;
    if (t->at < t->end && *t->at == '.') {
        *whole = 0;
        digits = ++t->at;
        while (t->at < t->end && *t->at >= '0' && *t->at <= '9')
            t->at++;
        if (t->at == digits)
            return BAD_SYNTAX;
    }
    if (t->at < t->end && (*t->at == 'e' || *t->at == 'E')) {
        *whole = 0;
        t->at++;
        if (t->at < t->end && (*t->at == '+' || *t->at == '-'))
            t->at++;
        digits = t->at;
        while (t->at < t->end && *t->at >= '0' && *t->at <= '9')
            t->at++;
        if (t->at == digits)
            return BAD_SYNTAX;
    }
    return OK;
}

static locale_t plain_locale(void) {
    static locale_t locale; /* made once; a lost race leaks a few bytes */
    if (!locale)
        locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return locale;
}

static int span_double(const uint8_t *span, size_t length, double *value) {
    uint64_t digits = 0;
    int seen = 0, after = 0, point = 0;
    size_t i = span[0] == '-';
    for (; i < length && seen < 19; i++) {
        if (span[i] == '.') {
            point = 1;
        } else if (span[i] >= '0' && span[i] <= '9') {
            digits = digits * 10 + (uint64_t)(span[i] - '0');
            seen++;
            after += point;
        } else {
            break;
        }
    }
    if (i == length && digits <= ((uint64_t)1 << 53) && after <= 22) { /* both exact, so one rounding: the right one */
        double exact = (double)digits / TENS[after];
        *value = span[0] == '-' ? -exact : exact;
        return OK;
    }
    char text[400];
    if (length >= sizeof text)
        return BAD_RANGE;
    memcpy(text, span, length);
    text[length] = 0;
    char *stop;
    *value = strtod_l(text, &stop, plain_locale());
    return stop == text + length && isfinite(*value) ? OK : BAD_RANGE;
}

static int span_long(const uint8_t *span, size_t length, int whole, int64_t *value) {
    if (!whole) { /* 1.0 and 1e3 are integers to JSON */
        double number;
        int bad = span_double(span, length, &number);
        if (bad)
            return bad;
        if (number != floor(number))
            return BAD_TYPE;
        if (fabs(number) > 9007199254740992.0)
            return BAD_RANGE;
        *value = (int64_t)number;
        return OK;
    }
    size_t i = span[0] == '-';
    if (length - i > 19)
        return BAD_RANGE;
    uint64_t digits = 0;
    for (size_t k = i; k < length; k++)
        digits = digits * 10 + (uint64_t)(span[k] - '0');
    if (digits > (uint64_t)INT64_MAX + i)
        return BAD_RANGE;
    *value = i ? (int64_t)(0 - digits) : (int64_t)digits;
    return OK;
}

static int skip_value(Text *t, int depth) {
    const uint8_t *span;
    size_t length;
    int whole, bad;
    if (depth > DEPTH_MAX)
        return BAD_DEPTH;
    if (t->at >= t->end)
        return BAD_CUT;
    uint8_t open = *t->at;
    if (open == '"') {
        t->at++;
        return read_string(t, &span, &length);
    }
    if (open != '{' && open != '[') {
        if (take_word(t, "true") || take_word(t, "false") || take_word(t, "null"))
            return OK;
        return number_span(t, &span, &whole);
    }
    uint8_t close = open == '{' ? '}' : ']';
    t->at++;
    skip_space(t);
    if (t->at < t->end && *t->at == close) {
        t->at++;
        return OK;
    }
    for (;;) {
        skip_space(t);
        if (open == '{') {
            if (t->at >= t->end || *t->at++ != '"')
                return BAD_SYNTAX;
            if ((bad = read_string(t, &span, &length)))
                return bad;
            skip_space(t);
            if (t->at >= t->end || *t->at++ != ':')
                return BAD_SYNTAX;
            skip_space(t);
        }
        if ((bad = skip_value(t, depth + 1)))
            return bad;
        skip_space(t);
        if (t->at >= t->end)
            return BAD_CUT;
        uint8_t c = *t->at++;
        if (c == close)
            return OK;
        if (c != ',')
            return BAD_SYNTAX;
    }
}

static int read_value(Node *node, Text *t, int depth);

static int read_object(Node *node, Text *t, int depth) {
    int64_t row = node->rows;
    int expected = 0, bad;
    t->at++;
    skip_space(t);
    if (t->at < t->end && *t->at == '}') {
        t->at++;
    } else {
        for (;;) {
            const uint8_t *key;
            size_t length;
            skip_space(t);
            if (t->at >= t->end)
                return BAD_CUT;
            if (*t->at++ != '"')
                return BAD_SYNTAX;
            if ((bad = read_string(t, &key, &length)))
                return bad;
            Node *kid = NULL;
            for (int k = 0; k < node->kids_count && !kid; k++) {
                int at = expected + k < node->kids_count ? expected + k : expected + k - node->kids_count;
                Node *other = node->kids[at];
                if (other->name_length == length && !memcmp(other->name, key, length)) {
                    kid = other;
                    expected = at + 1 < node->kids_count ? at + 1 : 0;
                }
            }
            skip_space(t);
            if (t->at >= t->end || *t->at++ != ':')
                return BAD_SYNTAX;
            skip_space(t);
            if (kid && kid->rows == row) {
                bad = read_value(kid, t, depth + 1);
            } else { /* a key that the shape does not know, or one that is there twice: the first one counts */
                t->unseen |= !kid;
                bad = skip_value(t, depth + 1);
            }
            if (bad)
                return bad;
            skip_space(t);
            if (t->at >= t->end)
                return BAD_CUT;
            uint8_t c = *t->at++;
            if (c == '}')
                break;
            if (c != ',')
                return BAD_SYNTAX;
        }
    }
    for (int k = 0; k < node->kids_count; k++)
        if (node->kids[k]->rows == row && (bad = node_null(node->kids[k])))
            return bad;
    return node_count(node);
}

static int read_list(Node *node, Text *t, int depth) {
    int bad;
    t->at++;
    skip_space(t);
    if (t->at < t->end && *t->at == ']') {
        t->at++;
        return node_list(node);
    }
    for (;;) {
        skip_space(t);
        if ((bad = read_value(node->kids[0], t, depth + 1)))
            return bad;
        skip_space(t);
        if (t->at >= t->end)
            return BAD_CUT;
        uint8_t c = *t->at++;
        if (c == ']')
            return node_list(node);
        if (c != ',')
            return BAD_SYNTAX;
    }
}

static int read_map(Node *node, Text *t, int depth) {
    int bad;
    t->at++;
    skip_space(t);
    if (t->at < t->end && *t->at == '}') {
        t->at++;
        return node_list(node);
    }
    for (;;) {
        const uint8_t *key;
        size_t length;
        skip_space(t);
        if (t->at >= t->end || *t->at++ != '"')
            return BAD_SYNTAX;
        if ((bad = read_string(t, &key, &length)) || (bad = node_span(node->kids[0], key, length)))
            return bad;
        skip_space(t);
        if (t->at >= t->end || *t->at++ != ':')
            return BAD_SYNTAX;
        skip_space(t);
        if ((bad = read_value(node->kids[1], t, depth + 1)))
            return bad;
        skip_space(t);
        if (t->at >= t->end)
            return BAD_CUT;
        uint8_t c = *t->at++;
        if (c == '}')
            return node_list(node);
        if (c != ',')
            return BAD_SYNTAX;
    }
}

static int read_value(Node *node, Text *t, int depth) {
    const uint8_t *span;
    size_t length;
    int bad, whole;
    double number;
    int64_t whole_number;
    if (depth > DEPTH_MAX)
        return BAD_DEPTH;
    if (t->at >= t->end)
        return BAD_CUT;
    if (*t->at == 'n' && take_word(t, "null"))
        return node_nullable(node) ? node_null(node) : BAD_TYPE;
    uint8_t c = *t->at;
    switch (node->kind) {
    case HOLLOW:
        if ((bad = skip_value(t, depth)))
            return bad;
        t->unseen = 1;
        return node_count(node);
    case BOOL:
        if (take_word(t, "true"))
            return node_bool(node, 1);
        return take_word(t, "false") ? node_bool(node, 0) : BAD_TYPE;
    case INT64:
    case DOUBLE:
        if (c != '-' && (c < '0' || c > '9'))
            return BAD_TYPE;
        if ((bad = number_span(t, &span, &whole)))
            return bad;
        if (node->kind == INT64)
            return (bad = span_long(span, (size_t)(t->at - span), whole, &whole_number)) ? bad : node_i64(node, whole_number);
        return (bad = span_double(span, (size_t)(t->at - span), &number)) ? bad : node_fixed(node, &number, 8);
    case STRING:
        if ((node->wire & WIRE_KIND) == WIRE_RAW) {
            span = t->at;
            return (bad = skip_value(t, depth)) ? bad : node_span(node, span, (size_t)(t->at - span));
        }
        if (c != '"')
            return BAD_TYPE;
        t->at++;
        return (bad = read_string(t, &span, &length)) ? bad : node_span(node, span, length);
    case LIST:
        return c == '[' ? read_list(node, t, depth) : BAD_TYPE;
    case MAP:
        return c == '{' ? read_map(node, t, depth) : BAD_TYPE;
    case STRUCT:
        return c == '{' ? read_object(node, t, depth) : BAD_TYPE;
    default:
        return BAD_TYPE;
    }
}

int json_read(Node *root, const uint8_t *at, const uint8_t *end, int *unseen) {
    Text t = {at, end, {NULL, 0, 0}, 0};
    int bad;
    skip_space(&t);
    if ((root->wire & WIRE_KIND) == WIRE_BARE) {
        bad = read_value(root->kids[0], &t, 0);
        if (!bad)
            bad = node_count(root);
    } else {
        /* a null here is a value that says null, not an object */
        bad = t.at >= t.end ? BAD_CUT : *t.at == '{' ? read_object(root, &t, 0) : BAD_TYPE;
    }
    skip_space(&t);
    if (!bad && t.at != t.end)
        bad = BAD_REST;
    *unseen = t.unseen;
    buf_free(&t.text);
    return bad;
}

static int write_point(Buf *out, unsigned c) {
    char text[16];
    int n = c < 0x10000 ? snprintf(text, sizeof text, "\\u%04x", c)
                        : snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
    return buf_put(out, text, (size_t)n);
}

static int write_string(Buf *out, const uint8_t *span, size_t length, int style) {
    if (buf_byte(out, '"'))
        return BAD_MEMORY;
    size_t i = 0;
    while (i < length) {
        size_t start = i;
        while (i < length && span[i] >= 0x20 && span[i] != '"' && span[i] != '\\' && !(span[i] >= 0x80 && style & STYLE_ASCII))
            i++;
        if (buf_put(out, span + start, i - start))
            return BAD_MEMORY;
        if (i >= length)
            break;
        uint8_t c = span[i];
        static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
        const char *found = c ? strchr(from, c) : NULL;
        int bad;
        if (found) {
            char pair[2] = {'\\', to[found - from]};
            bad = buf_put(out, pair, 2);
            i++;
        } else if (c < 0x80) {
            bad = write_point(out, c);
            i++;
        } else { /* Arrow's strings are UTF-8: the lengths are right */
            int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
            unsigned point = c & (0x3fu >> more);
            for (i++; more > 0 && i < length; more--)
                point = point << 6 | (span[i++] & 63u);
            bad = write_point(out, point);
        }
        if (bad)
            return BAD_MEMORY;
    }
    return buf_byte(out, '"');
}

static int write_long(Buf *out, int64_t value) {
    char text[24];
    size_t at = sizeof text;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        text[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (value < 0)
        text[--at] = '-';
    return buf_put(out, text + at, sizeof text - at);
}

/* The shortest digits that give the number again, laid out as Python and JavaScript do up to their exponents. */
static int write_double(Buf *out, double value, int style) {
    char text[64], digits[32];
    double size = fabs(value);
    if (size < 1e15) {
        for (int places = 0; places <= 9 && (size >= 1e-4 || size == 0); places++) {
            double scaled = nearbyint(size * TENS[places]);
            if (scaled > 9007199254740992.0)
                break;
            if (scaled / TENS[places] != size)
                continue;
            if (signbit(value) && buf_byte(out, '-'))
                return BAD_MEMORY;
            uint64_t unit = (uint64_t)TENS[places], all = (uint64_t)scaled;
            if (write_long(out, (int64_t)(all / unit)))
                return BAD_MEMORY;
            if (!places)
                return style & STYLE_INTEGRAL ? OK : buf_put(out, ".0", 2);
            uint64_t rest = all % unit;
            text[0] = '.';
            for (int i = places; i > 0; i--, rest /= 10)
                text[i] = (char)('0' + rest % 10);
            return buf_put(out, text, (size_t)places + 1);
        }
    }
    int n = 0;
    for (int precision = 14; precision <= 16; precision++) {
        n = snprintf(text, sizeof text, "%.*e", precision, value);
        if (strtod_l(text, NULL, plain_locale()) == value)
            break;
    }
    /* -d.ddddde[+-]xx -> digits and exponent */
    int count = 0, at = text[0] == '-', exponent;
    char *mark = memchr(text, 'e', (size_t)n);
    if (!mark) /* not a finite number: JSON has none, so the original is kept beside the row */
        return buf_put(out, "null", 4);
    exponent = atoi(mark + 1);
    for (int i = at; text + i < mark; i++)
        if (text[i] >= '0' && text[i] <= '9')
            digits[count++] = text[i];
    while (count > 1 && digits[count - 1] == '0')
        count--;
    char shown[64];
    int m = 0;
    if (at)
        shown[m++] = '-';
    if (exponent < -4 || exponent >= 16) {
        shown[m++] = digits[0];
        if (count > 1) {
            shown[m++] = '.';
            memcpy(shown + m, digits + 1, (size_t)count - 1);
            m += count - 1;
        }
        m += snprintf(shown + m, 16, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    } else if (exponent < 0) {
        shown[m++] = '0';
        shown[m++] = '.';
        for (int i = -1; i > exponent; i--)
            shown[m++] = '0';
        memcpy(shown + m, digits, (size_t)count);
        m += count;
    } else {
        for (int i = 0; i <= exponent || i < count; i++) {
            if (i == exponent + 1)
                shown[m++] = '.';
            shown[m++] = i < count ? digits[i] : '0';
        }
        if (count <= exponent + 1 && !(style & STYLE_INTEGRAL)) {
            shown[m++] = '.';
            shown[m++] = '0';
        }
    }
    return buf_put(out, shown, (size_t)m);
}

static int write_value(const Node *node, const struct ArrowArray *array, int64_t row, Buf *out, int style);

static int write_separator(Buf *out, int first, int style) {
    return first ? OK : style & STYLE_SPACES ? buf_put(out, ", ", 2) : buf_byte(out, ',');
}

static int write_colon(Buf *out, int style) { return style & STYLE_SPACES ? buf_put(out, ": ", 2) : buf_byte(out, ':'); }

static int write_object(const Node *node, const struct ArrowArray *array, int64_t row, Buf *out, int style) {
    int column = 0, first = 1, bad;
    if (buf_byte(out, '{'))
        return BAD_MEMORY;
    for (int k = 0; k < node->kids_count; k++) {
        const Node *kid = node->kids[k];
        const struct ArrowArray *values = NULL;
        if (!node_hollow(kid))
            values = array->children[column++];
        int64_t at = array ? array->offset + row : row;
        int valid = values && arrow_valid(values, at);
        if (!valid && !(style & STYLE_NULLS))
            continue;
        if (write_separator(out, first, style) || write_string(out, (const uint8_t *)kid->name, kid->name_length, style) ||
            write_colon(out, style))
            return BAD_MEMORY;
        first = 0;
        if ((bad = valid ? write_value(kid, values, at, out, style) : buf_put(out, "null", 4)))
            return bad;
    }
    return buf_byte(out, '}');
}

static int write_items(const Node *node, const struct ArrowArray *array, int64_t row, Buf *out, int style) {
    const struct ArrowArray *items = array->children[0];
    int64_t from = arrow_i32(array, row), to = arrow_i32(array, row + 1);
    int is_map = node->kind == MAP;
    if (buf_byte(out, is_map ? '{' : '['))
        return BAD_MEMORY;
    for (int64_t i = from; i < to; i++) {
        const struct ArrowArray *values = items;
        int64_t at = i;
        if (write_separator(out, i == from, style))
            return BAD_MEMORY;
        if (is_map) {
            size_t length;
            at = items->offset + i;
            const uint8_t *key = arrow_bytes(items->children[0], at, &length);
            if (write_string(out, key, length, style) || write_colon(out, style))
                return BAD_MEMORY;
            values = items->n_children > 1 ? items->children[1] : NULL;
        }
        const Node *kid = node->kids[is_map];
        int hollow = node_hollow(kid);
        int bad = hollow || !values || !arrow_valid(values, at) ? buf_put(out, "null", 4) : write_value(kid, values, at, out, style);
        if (bad)
            return bad;
    }
    return buf_byte(out, is_map ? '}' : ']');
}

static int write_value(const Node *node, const struct ArrowArray *array, int64_t row, Buf *out, int style) {
    const uint8_t *span;
    size_t length;
    switch (node->kind) {
    case BOOL:
        return bit_at(array->buffers[1], array->offset + row) ? buf_put(out, "true", 4) : buf_put(out, "false", 5);
    case INT64:
        return write_long(out, arrow_i64(array, row));
    case DOUBLE:
        return write_double(out, ((const double *)array->buffers[1])[array->offset + row], style);
    case STRING:
        span = arrow_bytes(array, row, &length);
        return (node->wire & WIRE_KIND) == WIRE_RAW ? buf_put(out, span, length) : write_string(out, span, length, style);
    case LIST:
    case MAP:
        return write_items(node, array, row, out, style);
    case STRUCT:
        return write_object(node, array, row, out, style);
    default:
        return buf_put(out, "null", 4);
    }
}

int json_write(const Node *root, const struct ArrowArray *array, int64_t row, Buf *out, int style) {
    if ((root->wire & WIRE_KIND) == WIRE_BARE) {
        const struct ArrowArray *values = node_hollow(root->kids[0]) ? NULL : array->children[0];
        int64_t at = array->offset + row;
        return values && arrow_valid(values, at) ? write_value(root->kids[0], values, at, out, style) : buf_put(out, "null", 4);
    }
    return write_object(root, array, row, out, style);
}
