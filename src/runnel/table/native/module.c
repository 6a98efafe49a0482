/* The compiled helper's face to Python: it takes buffers and Arrow capsules, and gives bytes.

   Only the stable interface of CPython 3.11 is used, so one build serves every later version. Work on rows runs
   without the interpreter's lock; bytes objects are made at the end. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "common.h"
#include "rows.h"
#include "shapes.h"

#define CONTRACT 2 /* compiled.py asks for the same number, so a stale build is left alone */

static int raise_bad(int bad) {
    if (bad == BAD_MEMORY)
        PyErr_NoMemory();
    else
        PyErr_SetString(PyExc_OverflowError, "more than 2 GiB in one column; give fewer rows at a time");
    return -1;
}

static PyObject *to_bytes(const Buf *buf) { return PyBytes_FromStringAndSize((const char *)buf->at, (Py_ssize_t)buf->used); }

static const struct ArrowArray *arrow_of(PyObject *capsule) {
    return (const struct ArrowArray *)PyCapsule_GetPointer(capsule, "arrow_array");
}

PyDoc_STRVAR(split_doc,
             "split(sections, facts) -> (status, rows, headers, *buffers)\n\n"
             "Records of unfolded batch bodies as Arrow buffers. `facts` holds five int64 a section: records, base\n"
             "offset, last offset delta, base timestamp, append time or -1. `status` is an int32 a section: 0, or why\n"
             "none of its records are among the rows.");

static PyObject *split(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *list, *result = NULL;
    Py_buffer facts;
    if (!PyArg_ParseTuple(args, "O!y*", &PyList_Type, &list, &facts))
        return NULL;
    Py_ssize_t count = PyList_Size(list), held = 0;
    Section *sections = calloc((size_t)count + 1, sizeof *sections);
    Py_buffer *views = calloc((size_t)count + 1, sizeof *views);
    int32_t *status = calloc((size_t)count + 1, sizeof *status);
    Rows rows;
    memset(&rows, 0, sizeof rows);
    if (!sections || !views || !status) {
        PyErr_NoMemory();
        goto done;
    }
    if (facts.len != count * 40) {
        PyErr_SetString(PyExc_ValueError, "facts are not five 64-bit numbers a section");
        goto done;
    }
    for (; held < count; held++) {
        if (PyObject_GetBuffer(PyList_GetItem(list, held), &views[held], PyBUF_SIMPLE))
            goto done;
        int64_t numbers[5];
        memcpy(numbers, (const char *)facts.buf + held * 40, 40);
        sections[held] = (Section){views[held].buf, (size_t)views[held].len, numbers[0],
                                   numbers[1],      numbers[2],              numbers[3], numbers[4]};
    }
    int bad;
    Py_BEGIN_ALLOW_THREADS
    bad = rows_split(sections, count, status, &rows);
    Py_END_ALLOW_THREADS
    if (bad) {
        raise_bad(bad);
        goto done;
    }
    Buf status_buf = {(uint8_t *)status, (size_t)count * 4, 0};
    result = Py_BuildValue("(NLLNNNNNNNNNNNNNN)", to_bytes(&status_buf), (long long)rows.records,
                           (long long)rows.headers, to_bytes(&rows.offsets), to_bytes(&rows.times),
                           to_bytes(&rows.key_valid), to_bytes(&rows.key_ends), to_bytes(&rows.keys),
                           to_bytes(&rows.value_valid), to_bytes(&rows.value_ends), to_bytes(&rows.values),
                           to_bytes(&rows.header_ends), to_bytes(&rows.header_key_ends), to_bytes(&rows.header_keys),
                           to_bytes(&rows.header_value_valid), to_bytes(&rows.header_value_ends),
                           to_bytes(&rows.header_values));
done:
    while (held > 0)
        PyBuffer_Release(&views[--held]);
    rows_free(&rows);
    free(sections);
    free(views);
    free(status);
    PyBuffer_Release(&facts);
    return result;
}

PyDoc_STRVAR(join_doc,
             "join(rows, cuts) -> [bytes, ...]\n\n"
             "The bodies of batches, unfolded. `rows` is the Arrow capsule of a struct array (offset: int64, time:\n"
             "int64, key: binary, value: binary, headers: list<struct<key: string, value: binary>>); `cuts` holds the\n"
             "first row of each batch and, last, the number of rows, as int64.");

static PyObject *join(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule, *result = NULL;
    Py_buffer cuts;
    if (!PyArg_ParseTuple(args, "Oy*", &capsule, &cuts))
        return NULL;
    const struct ArrowArray *rows = arrow_of(capsule);
    Buf body;
    memset(&body, 0, sizeof body);
    if (!rows)
        goto done;
    Py_ssize_t count = cuts.len / 8 - 1;
    const int64_t *at = cuts.buf;
    if (rows->n_children != 5 || cuts.len % 8 || count < 0 || at[0] < 0 || at[count] > rows->length) {
        PyErr_SetString(PyExc_ValueError, "cuts leave the rows, or the rows are not five columns");
        goto done;
    }
    result = PyList_New(count);
    for (Py_ssize_t i = 0; result && i < count; i++) {
        body.used = 0;
        if (at[i] >= at[i + 1]) {
            PyErr_SetString(PyExc_ValueError, "a batch without rows");
            Py_CLEAR(result);
            break;
        }
        int bad;
        Py_BEGIN_ALLOW_THREADS
        bad = rows_join(rows, at[i], at[i + 1], &body);
        Py_END_ALLOW_THREADS
        PyObject *bytes = bad ? NULL : to_bytes(&body);
        if (bad)
            raise_bad(bad);
        if (!bytes || PyList_SetItem(result, i, bytes))
            Py_CLEAR(result);
    }
done:
    buf_free(&body);
    PyBuffer_Release(&cuts);
    return result;
}

enum { AVRO, JSON, PROTOBUF };

/* (kind, wire, null_at, arg, name, kids), as shapes.py makes it. */
static Node *node_of(PyObject *program, int depth) {
    int kind, wire, null_at;
    long long arg;
    const char *name;
    Py_ssize_t length;
    PyObject *kids;
    if (depth > DEPTH_MAX) {
        PyErr_SetString(PyExc_ValueError, "a shape is nested too deeply");
        return NULL;
    }
    if (!PyArg_ParseTuple(program, "iiiLy#O!", &kind, &wire, &null_at, &arg, &name, &length, &PyTuple_Type, &kids))
        return NULL;
    Py_ssize_t count = PyTuple_Size(kids);
    Py_ssize_t least = kind == MAP ? 2 : kind == LIST ? 1 : 0;
    if (kind < HOLLOW || kind > UNION || count < least || count > 100000 || arg < 0 || (kind == FIXED && arg > 1 << 20)) {
        PyErr_SetString(PyExc_ValueError, "a shape that does not exist");
        return NULL;
    }
    Node *node = calloc(1, sizeof *node);
    if (node) {
        *node = (Node){.kind = kind, .wire = wire, .null_at = null_at, .arg = arg, .name_length = (size_t)length};
        node->name = malloc((size_t)length + 1);
        node->kids = calloc((size_t)count + 1, sizeof *node->kids);
    }
    if (!node || !node->name || !node->kids) {
        node_free(node);
        PyErr_NoMemory();
        return NULL;
    }
    memcpy(node->name, name, (size_t)length);
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *kid = PyTuple_GetItem(kids, k);
        Node *made = kid && PyTuple_Check(kid) ? node_of(kid, depth + 1) : NULL;
        if (!made) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "a kid of a shape is no tuple");
            node_free(node);
            return NULL;
        }
        node->kids[node->kids_count++] = made;
    }
    return node;
}

static PyObject *optional_bytes(const Buf *buf, int there) {
    return there ? to_bytes(buf) : Py_NewRef(Py_None);
}

/* (rows, validity or None, ends or None, data or None, kids) */
static PyObject *columns_of(const Node *node) {
    PyObject *kids = PyTuple_New(node->kids_count);
    for (int k = 0; kids && k < node->kids_count; k++) {
        PyObject *kid = columns_of(node->kids[k]);
        if (!kid || PyTuple_SetItem(kids, k, kid))
            Py_CLEAR(kids);
    }
    if (!kids)
        return NULL;
    return Py_BuildValue("(LNNNN)", (long long)node->rows, optional_bytes(&node->valid, node_nullable(node)),
                         optional_bytes(&node->ends, node->ends.used > 0), optional_bytes(&node->data, node->data.used > 0), kids);
}

static int read_all(int format, Node *root, const struct ArrowArray *values, const uint8_t *prefix, size_t prefix_length,
                    int32_t *status) {
    int64_t done = 0;
    if (node_start(root))
        return BAD_MEMORY;
    for (int64_t i = 0; i < values->length; i++) {
        size_t length;
        int bad, unseen = 0;
        if (!arrow_valid(values, i)) {
            status[i] = BAD_NULL;
            continue;
        }
        const uint8_t *at = arrow_bytes(values, i, &length);
        if (length < prefix_length || memcmp(at, prefix, prefix_length)) {
            status[i] = BAD_PREFIX;
            continue;
        }
        const uint8_t *end = at + length;
        at += prefix_length;
        if (format == AVRO)
            bad = avro_read(root, at, end);
        else if (format == JSON)
            bad = json_read(root, at, end, &unseen);
        else
            bad = protobuf_read(root, at, end);
        if (bad >= BAD_MEMORY)
            return bad;
        status[i] = bad ? bad : unseen ? -1 : 0;
        if (bad)
            node_cut(root, done);
        else
            done++;
    }
    return OK;
}

PyDoc_STRVAR(decode_doc,
             "decode(format, program, values, prefix) -> (columns, status)\n\n"
             "Binary values (an Arrow capsule) as columns. `format` is 0 Avro, 1 JSON, 2 Protobuf. `status` is an int32 a\n"
             "value: 0 read, -1 read but with JSON keys that the shape does not know, else why it has no row.");

static PyObject *decode(PyObject *self, PyObject *args) {
    (void)self;
    int format, bad;
    PyObject *program, *capsule, *result = NULL;
    Py_buffer prefix;
    if (!PyArg_ParseTuple(args, "iO!Oy*", &format, &PyTuple_Type, &program, &capsule, &prefix))
        return NULL;
    const struct ArrowArray *values = arrow_of(capsule);
    Node *root = values ? node_of(program, 0) : NULL;
    int32_t *status = root ? calloc((size_t)values->length + 1, sizeof *status) : NULL;
    if (root && !status)
        PyErr_NoMemory();
    if (!status)
        goto done;
    Py_BEGIN_ALLOW_THREADS
    bad = read_all(format, root, values, prefix.buf, (size_t)prefix.len, status);
    Py_END_ALLOW_THREADS
    if (bad) {
        raise_bad(bad);
        goto done;
    }
    PyObject *columns = columns_of(root);
    if (columns) {
        Buf numbers = {(uint8_t *)status, (size_t)values->length * 4, 0};
        result = Py_BuildValue("(NN)", columns, to_bytes(&numbers));
    }
done:
    free(status);
    node_free(root);
    PyBuffer_Release(&prefix);
    return result;
}

static int write_all(int format, const Node *root, const struct ArrowArray *rows, const Py_buffer *prefix, int style,
                     Buf *ends, Buf *data) {
    int bad = buf_i32(ends, 0);
    for (int64_t i = 0; !bad && i < rows->length; i++) {
        if (buf_put(data, prefix->buf, (size_t)prefix->len))
            return BAD_MEMORY;
        if (format == AVRO)
            bad = avro_write(root, rows, i, data);
        else if (format == JSON)
            bad = json_write(root, rows, i, data, style);
        else
            bad = protobuf_write(root, rows, i, data);
        if (bad && bad < BAD_MEMORY) {
            bad = OK; /* a row that was not read by this shape: what is there differs, and so the original is kept */
        }
        if (!bad && data->used > BYTES_MAX)
            return BAD_SIZE;
        if (!bad)
            bad = buf_i32(ends, (int32_t)data->used);
    }
    return bad;
}

PyDoc_STRVAR(encode_doc,
             "encode(format, program, rows, prefix, style) -> (ends, data)\n\n"
             "The rows of a struct array (an Arrow capsule, with a column for each kid that is not hollow) as values,\n"
             "given as the buffers of an Arrow binary array.");

static PyObject *encode(PyObject *self, PyObject *args) {
    (void)self;
    int format, style, bad;
    PyObject *program, *capsule, *result = NULL;
    Py_buffer prefix;
    if (!PyArg_ParseTuple(args, "iO!Oy*i", &format, &PyTuple_Type, &program, &capsule, &prefix, &style))
        return NULL;
    Buf ends, data;
    memset(&ends, 0, sizeof ends);
    memset(&data, 0, sizeof data);
    const struct ArrowArray *rows = arrow_of(capsule);
    Node *root = rows ? node_of(program, 0) : NULL;
    if (!root)
        goto done;
    Py_BEGIN_ALLOW_THREADS
    bad = write_all(format, root, rows, &prefix, style, &ends, &data);
    Py_END_ALLOW_THREADS
    if (bad)
        raise_bad(bad);
    else
        result = Py_BuildValue("(NN)", to_bytes(&ends), to_bytes(&data));
done:
    buf_free(&ends);
    buf_free(&data);
    node_free(root);
    PyBuffer_Release(&prefix);
    return result;
}

static PyMethodDef methods[] = {
    {"decode", decode, METH_VARARGS, decode_doc},
    {"encode", encode, METH_VARARGS, encode_doc},
    {"split", split, METH_VARARGS, split_doc},
    {"join", join, METH_VARARGS, join_doc},
    {NULL, NULL, 0, NULL},
};

static int fill(PyObject *module) { return PyModule_AddIntConstant(module, "CONTRACT", CONTRACT); }

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)fill},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_compiled", "The compiled helper of runnel.table.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__compiled(void) { return PyModuleDef_Init(&definition); }
