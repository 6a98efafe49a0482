/* The compiled helper's face to Python: it takes buffers and Arrow capsules, and gives bytes.

   Only the stable interface of CPython 3.11 is used, so one build serves every later version. Work on rows runs
   without the interpreter's lock; bytes objects are made at the end. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "common.h"
#include "rows.h"

#define CONTRACT 1 /* compiled.py asks for the same number, so a stale build is left alone */

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

static PyMethodDef methods[] = {
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
