/* cellcrypt._core: the C core as Python sees it. The only file that includes Python.h.
 *
 * What lives here: the type CellCipher over the native kernels, crypt_each, the XOR loops, and what `info` and the
 * benchmarks ask.
 *
 * Rules of this file
 *   - The quick case stands first in each call and is one test: exact bytes or bytearray, right length, state == 0.
 *     Everything else takes the slow way, where the words of every refusal come from Python (buffers.py, cipher.py).
 *   - Check, then write, then move; a call that raises has changed nothing.
 *   - The GIL guards the state. A call that lets go of it marks the cipher as taken first. This module therefore does
 *     not claim to run without the GIL, and a free-threaded interpreter turns it on for us.
 *   - A buffer is got before the state is looked at: getting one may run Python code, and that may use this cipher.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "cellcrypt.h"

#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__)
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define PREFETCH(p) __builtin_prefetch((p), 1, 3)
#else
#define LIKELY(x) (x)
#define PREFETCH(p) ((void)(p))
#endif

/* Cells in one call from which letting go of the GIL costs less than it can give (37 ns, PERF in perf/). */
#define CELLS_WITHOUT_GIL 256
/* Ciphers whose state crypt_each asks for ahead of the one it works on. */
#define PREFETCH_CIPHERS 4
/* Key stream at once for the byte and word paths, in octets: a multiple of a word and of a block. */
#define PATH_CHUNK 2048

enum { CLOSED = 1, TAKEN = 2, PATH_BYTE = 4, PATH_WORD = 8, NEAR_END = 16, LIBRARY = 32 };
#define PATHS (PATH_BYTE | PATH_WORD)

typedef void xor_loop(uint8_t *, const uint8_t *, const uint8_t *, size_t);

/* What a LibraryCipher of cipher.py lends to the core, so that its usual cell needs no Python frame of ours either:
 * a call that XORs the next key stream of the library's context, or key stream made ahead, or both. */
typedef struct {
    PyObject *live;      /* (source, destination), or NULL */
    Py_buffer store;     /* key stream made ahead; store.obj NULL where there is none */
    PyObject *cell;      /* the store's first payload_len octets, which live may fill with key stream; or NULL */
    size_t start, end;   /* of the store that is not used yet */
    xor_loop *loop;      /* how key stream meets payload; NULL: live does both */
    uint64_t used, left; /* octets used since it was lent, and that may still be used */
} Loan;

typedef struct {
    PyObject_HEAD
    uint32_t state;       /* 0: native, open, free, path fused, and 2^64 blocks or more from the end */
    uint32_t payload_len; /* 1..65535 */
    Loan *loan;           /* of a LibraryCipher; NULL in a native one */
    /* The stream, 64-aligned by hand since Python's allocator aligns to 16 (PyObject_Malloc). */
    uint8_t storage[sizeof(cc_stream) + 48];
} Cipher;

static inline cc_stream *stream_of(Cipher *self)
{
    return (cc_stream *)(((uintptr_t)self->storage + 63) & ~(uintptr_t)63);
}

typedef struct {
    PyTypeObject *cipher_type;
    PyObject *format_type;      /* cellcrypt.formats.CellFormat */
    PyObject *last_format;      /* the format of the last batch, and what it says */
    uint32_t header_len, payload_len;
    int proved;                 /* the best kernel has proved itself, so backend="native" may take the short cut */
    int preferred;              /* and native is what backend=None means */
    PyObject *names[7];         /* interned keyword names of CellCipher(), in the order of `enum argument` */
    PyObject *paths[3];
    PyObject *native;
    PyObject *str_payload, *str_out, *str_buffer, *str_cell_format, *str_header_len, *str_payload_len;
} State;

enum argument { KEY, IV, PAYLOAD_LEN, PATH, BACKEND, LOOKAHEAD, KERNEL, ARGUMENTS };
static const char *const argument_names[ARGUMENTS] = {"key", "iv", "payload_len", "path", "backend", "lookahead", "kernel"};
static const char *const path_names[3] = {"fused", "byte", "word"};
static const uint32_t path_states[3] = {0, PATH_BYTE, PATH_WORD};

static struct PyModuleDef definition;

static State *state_of(PyObject *cipher)
{
    PyObject *module = PyType_GetModuleByDef(Py_TYPE(cipher), &definition);
    return module ? PyModule_GetState(module) : NULL;
}

/* ---- refusals, in Python's words ---- */

static PyObject *call_python(const char *module_name, const char *function, const char *format, ...)
{
    PyObject *module = PyImport_ImportModule(module_name);
    if (!module)
        return NULL;
    PyObject *callable = PyObject_GetAttrString(module, function);
    Py_DECREF(module);
    if (!callable)
        return NULL;
    va_list list;
    va_start(list, format);
    PyObject *arguments = Py_VaBuildValue(format, list);
    va_end(list);
    PyObject *result = arguments ? PyObject_CallObject(callable, arguments) : NULL;
    Py_XDECREF(arguments);
    Py_DECREF(callable);
    return result;
}

/* Get a flat buffer, or the gate's error. The gate also serves exporters that refuse PyBUF_SIMPLE for a reason of their own. */
static int get_buffer(PyObject *object, Py_buffer *view, int writable, const char *name)
{
    if (LIKELY(PyObject_GetBuffer(object, view, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) == 0))
        return 0;
    PyErr_Clear();
    PyObject *flat = call_python("cellcrypt.buffers", writable ? "writable" : "readable", "(Os)", object, name);
    if (!flat)
        return -1;
    int status = PyObject_GetBuffer(flat, view, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE);
    Py_DECREF(flat);
    return status;
}

static int check_length(size_t got, size_t expected, const char *name)
{
    if (LIKELY(got == expected))
        return 0;
    Py_XDECREF(call_python("cellcrypt.buffers", "check_length", "(nsn)", (Py_ssize_t)got, name, (Py_ssize_t)expected));
    return -1;
}

static PyObject *position_of(Cipher *self)
{
    unsigned within;
    int ended;
    cc_counter block = cc_stream_position(stream_of(self), &within, &ended);
    if (LIKELY(!ended && block.hi == 0 && block.lo < (UINT64_C(1) << 60)))
        return PyLong_FromUnsignedLongLong(block.lo * CC_BLOCK + within);
    char text[64];
    if (ended)
        snprintf(text, sizeof text, "1%033d", 0);
    else /* hexadecimal digits: 16 + 16 of the block number, then one of the octet in it */
        snprintf(text, sizeof text, "%016llx%016llx%x", (unsigned long long)block.hi, (unsigned long long)block.lo, within);
    return PyLong_FromString(text, NULL, 16);
}

/* Raise what keeps the cipher from making `length` more octets of key stream; -1 always. */
static int refuse(Cipher *self, size_t length)
{
    PyObject *position = position_of(self);
    if (!position)
        return -1;
    PyObject *error = call_python("cellcrypt.position", "refusal", "(iiNn)", !!(self->state & TAKEN),
                                  !!(self->state & CLOSED), position, (Py_ssize_t)length);
    if (error)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    return -1;
}

static inline int check_state(Cipher *self, size_t length)
{
    if (LIKELY(!(self->state & ~(uint32_t)PATHS)))
        return 0;
    if (self->state & (CLOSED | TAKEN) || !cc_stream_has(stream_of(self), length))
        return refuse(self, length);
    return 0;
}

static void note_near_end(Cipher *self)
{
    unsigned within;
    int ended;
    cc_counter block = cc_stream_position(stream_of(self), &within, &ended);
    self->state = (self->state & ~(uint32_t)NEAR_END) | (ended || block.hi == UINT64_MAX ? NEAR_END : 0);
}

/* ---- the work ---- */

static void crypt_by_path(cc_stream *s, xor_loop *loop, const uint8_t *in, uint8_t *out, size_t stride, size_t len, size_t count)
{
    uint8_t keystream[PATH_CHUNK];
    for (size_t cell = 0; cell < count; cell++)
        for (size_t done = 0; done < len;) {
            size_t now = len - done < PATH_CHUNK ? len - done : PATH_CHUNK;
            cc_keystream(s, keystream, now);
            loop(out + cell * stride + done, in + cell * stride + done, keystream, now);
            done += now;
        }
    cc_wipe(keystream, sizeof keystream);
}

static void crypt_payloads(cc_stream *s, uint32_t state, const uint8_t *in, uint8_t *out, size_t stride, size_t len, size_t count)
{
    if (LIKELY(!(state & PATHS)))
        cc_xor_cells(s, in, out, stride, len, count);
    else
        crypt_by_path(s, state & PATH_BYTE ? cc_xor_bytes : cc_xor_words, in, out, stride, len, count);
}

static inline void crypt_one(Cipher *self, const uint8_t *in, uint8_t *out)
{
    crypt_payloads(stream_of(self), self->state, in, out, self->payload_len, self->payload_len, 1);
}

/* ---- one cell of a LibraryCipher ---- */

static PyObject *call_method(PyObject *op, const char *method, PyObject *first, PyObject *second)
{
    PyObject *name = PyUnicode_InternFromString(method);
    PyObject *result = name ? PyObject_CallMethodObjArgs(op, name, first, second, NULL) : NULL;
    Py_XDECREF(name);
    return result;
}

static PyObject *view_of(PyObject *object, const uint8_t *octets, size_t len, int flags)
{
    return object ? Py_NewRef(object) : PyMemoryView_FromMemory((char *)octets, (Py_ssize_t)len, flags);
}

static int call_live(const Loan *loan, PyObject *source, PyObject *destination)
{
    PyObject *arguments[] = {NULL, source, destination};
    PyObject *result = PyObject_Vectorcall(loan->live, arguments + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* One payload by what was lent: 1 done, 0 not possible (nothing written), -1 the library failed. `source` and
 * `destination` are objects with just these octets, or NULL. */
static int crypt_lent(Cipher *self, const uint8_t *in, uint8_t *out, PyObject *source, PyObject *destination)
{
    Loan *loan = self->loan;
    size_t len = self->payload_len;
    int status = 0;
    if (!loan || self->state & (TAKEN | CLOSED) || loan->left < len)
        return 0;
    self->state |= TAKEN;
    if (!loan->loop) {
        source = view_of(source, in, len, PyBUF_READ);
        destination = view_of(destination, out, len, PyBUF_WRITE);
        status = source && destination ? call_live(loan, source, destination) : -1;
        Py_XDECREF(source);
        Py_XDECREF(destination);
    } else {
        if (loan->end - loan->start < len && loan->cell) {
            memset(loan->store.buf, 0, len);
            status = call_live(loan, loan->cell, loan->cell);
            loan->start = 0;
            loan->end = status ? 0 : len;
        }
        if (loan->end - loan->start < len)
            status = status ? status : 1;
        else {
            loan->loop(out, in, (const uint8_t *)loan->store.buf + loan->start, len);
            loan->start += len;
        }
    }
    if (status == 0) {
        loan->used += len;
        loan->left -= len;
    }
    self->state &= ~(uint32_t)TAKEN;
    return status < 0 ? -1 : !status;
}

/* The library failed in what was lent: take it back and say so in cipher.py's words. */
static PyObject *lent_failed(PyObject *op)
{
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    PyObject *result = call_method(op, "_lent_failed", error ? error : Py_None, NULL);
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(traceback);
    return result;
}

static PyObject *finish_lent(PyObject *op, int status, PyObject *result)
{
    if (status > 0)
        return result;
    Py_XDECREF(result);
    return status < 0 ? lent_failed(op) : NULL;
}

static PyObject *library_crypt(PyObject *op, PyObject *payload)
{
    Cipher *self = (Cipher *)op;
    if (LIKELY(PyBytes_CheckExact(payload) && (size_t)PyBytes_GET_SIZE(payload) == self->payload_len)) {
        PyObject *out = PyBytes_FromStringAndSize(NULL, PyBytes_GET_SIZE(payload));
        if (!out)
            return NULL;
        int status = crypt_lent(self, (const uint8_t *)PyBytes_AS_STRING(payload), (uint8_t *)PyBytes_AS_STRING(out),
                                payload, NULL);
        out = finish_lent(op, status, out);
        if (status)
            return out;
    }
    return call_method(op, "_crypt", payload, NULL);
}

static PyObject *library_crypt_in_place(PyObject *op, PyObject *payload)
{
    Cipher *self = (Cipher *)op;
    int status = 0;
    if (LIKELY(PyByteArray_CheckExact(payload) && (size_t)PyByteArray_GET_SIZE(payload) == self->payload_len)) {
        Py_buffer view; /* keeps the bytearray from being resized while the library runs */
        if (PyObject_GetBuffer(payload, &view, PyBUF_WRITABLE))
            return NULL;
        status = crypt_lent(self, view.buf, view.buf, payload, payload);
        PyBuffer_Release(&view);
    } else if (PyMemoryView_Check(payload)) {
        Py_buffer view;
        if (PyObject_GetBuffer(payload, &view, PyBUF_WRITABLE))
            PyErr_Clear();
        else {
            if ((size_t)view.len == self->payload_len)
                status = crypt_lent(self, view.buf, view.buf, NULL, NULL);
            PyBuffer_Release(&view);
        }
    }
    if (status)
        return finish_lent(op, status, Py_NewRef(Py_None));
    return call_method(op, "_crypt_in_place", payload, NULL);
}

static PyObject *library_crypt_into(PyObject *op, PyObject *payload, PyObject *out)
{
    Cipher *self = (Cipher *)op;
    if (LIKELY(PyBytes_CheckExact(payload) && PyByteArray_CheckExact(out)
               && (size_t)PyBytes_GET_SIZE(payload) == self->payload_len
               && (size_t)PyByteArray_GET_SIZE(out) == self->payload_len)) {
        Py_buffer view;
        if (PyObject_GetBuffer(out, &view, PyBUF_WRITABLE))
            return NULL;
        int status = crypt_lent(self, (const uint8_t *)PyBytes_AS_STRING(payload), view.buf, payload, out);
        PyBuffer_Release(&view);
        if (status)
            return finish_lent(op, status, Py_NewRef(Py_None));
    }
    return call_method(op, "_crypt_into", payload, out);
}

static void drop_loan(Cipher *self)
{
    Loan *loan = self->loan;
    self->loan = NULL;
    if (loan) {
        if (loan->store.obj)
            PyBuffer_Release(&loan->store);
        Py_XDECREF(loan->cell);
        Py_XDECREF(loan->live);
        PyMem_Free(loan);
    }
}

/* _lend(live, store, cell, start, end, path, payload_len, left): see Loan. Between a _take() and its _release(). */
static PyObject *cipher_lend(PyObject *op, PyObject *args)
{
    Cipher *self = (Cipher *)op;
    PyObject *live, *store, *cell;
    Py_ssize_t start, end;
    const char *path;
    unsigned long long left;
    if (!PyArg_ParseTuple(args, "OOOnnsIK", &live, &store, &cell, &start, &end, &path, &self->payload_len, &left))
        return NULL;
    drop_loan(self);
    Loan *loan = self->loan = PyMem_Calloc(1, sizeof *loan);
    if (!loan)
        return PyErr_NoMemory();
    loan->live = live == Py_None ? NULL : Py_NewRef(live);
    loan->cell = cell == Py_None ? NULL : Py_NewRef(cell);
    loan->left = left;
    if (store != Py_None) {
        if (PyObject_GetBuffer(store, &loan->store, PyBUF_WRITABLE)) {
            drop_loan(self);
            return NULL;
        }
        loan->loop = *path == 'b' ? cc_xor_bytes : *path == 'w' ? cc_xor_words : cc_xor_wide;
        loan->start = (size_t)start;
        loan->end = (size_t)end;
    }
    if ((!loan->loop && !loan->live) || (loan->cell && !loan->live) || (loan->cell && loan->store.len < self->payload_len)
        || start < 0 || end < start || (loan->loop && end > loan->store.len)) {
        drop_loan(self);
        PyErr_SetString(PyExc_SystemError, "_lend() takes what cipher.py has checked");
        return NULL;
    }
    Py_RETURN_NONE;
}

/* _reclaim() -> octets used of what was lent, which is no longer lent. */
static PyObject *cipher_reclaim(PyObject *op, PyObject *nothing)
{
    Cipher *self = (Cipher *)op;
    Loan *loan = self->loan;
    PyObject *result = PyLong_FromUnsignedLongLong(loan ? loan->used : 0);
    if (result)
        drop_loan(self);
    return result;
}

/* ---- one cell ---- */

static PyObject *crypt_slow(Cipher *self, PyObject *payload)
{
    Py_buffer view;
    if (get_buffer(payload, &view, 0, "payload"))
        return NULL;
    PyObject *out = NULL;
    if (check_length((size_t)view.len, self->payload_len, "payload") == 0 && check_state(self, self->payload_len) == 0) {
        out = PyBytes_FromStringAndSize(NULL, view.len);
        if (out)
            crypt_one(self, view.buf, (uint8_t *)PyBytes_AS_STRING(out));
    }
    PyBuffer_Release(&view);
    return out;
}

static PyObject *cipher_crypt(PyObject *op, PyObject *payload)
{
    Cipher *self = (Cipher *)op;
    if (LIKELY(PyBytes_CheckExact(payload) && (size_t)PyBytes_GET_SIZE(payload) == self->payload_len && self->state == 0)) {
        PyObject *out = PyBytes_FromStringAndSize(NULL, PyBytes_GET_SIZE(payload));
        if (out)
            cc_xor_cells(stream_of(self), (const uint8_t *)PyBytes_AS_STRING(payload), (uint8_t *)PyBytes_AS_STRING(out),
                         self->payload_len, self->payload_len, 1);
        return out;
    }
    return self->state & LIBRARY ? library_crypt(op, payload) : crypt_slow(self, payload);
}

static PyObject *crypt_in_place_slow(Cipher *self, PyObject *buffer)
{
    Py_buffer view;
    if (get_buffer(buffer, &view, 1, "payload"))
        return NULL;
    int status = check_length((size_t)view.len, self->payload_len, "payload");
    if (status == 0 && (status = check_state(self, self->payload_len)) == 0)
        crypt_one(self, view.buf, view.buf);
    PyBuffer_Release(&view);
    if (status)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *cipher_crypt_in_place(PyObject *op, PyObject *buffer)
{
    Cipher *self = (Cipher *)op;
    if (LIKELY(PyByteArray_CheckExact(buffer) && (size_t)PyByteArray_GET_SIZE(buffer) == self->payload_len && self->state == 0)) {
        uint8_t *payload = (uint8_t *)PyByteArray_AS_STRING(buffer);
        cc_xor_cells(stream_of(self), payload, payload, self->payload_len, self->payload_len, 1);
        Py_RETURN_NONE;
    }
    return self->state & LIBRARY ? library_crypt_in_place(op, buffer) : crypt_in_place_slow(self, buffer);
}

static PyObject *crypt_into_slow(Cipher *self, PyObject *payload, PyObject *out)
{
    Py_buffer source, target;
    if (get_buffer(payload, &source, 0, "payload"))
        return NULL;
    if (get_buffer(out, &target, 1, "out")) {
        PyBuffer_Release(&source);
        return NULL;
    }
    int status = check_length((size_t)source.len, self->payload_len, "payload");
    if (status == 0)
        status = check_length((size_t)target.len, self->payload_len, "out");
    if (status == 0) {
        uintptr_t from = (uintptr_t)source.buf, to = (uintptr_t)target.buf;
        if (from != to && (from < to ? to - from : from - to) < self->payload_len) {
            PyObject *distance = PyLong_FromLongLong((long long)((intptr_t)to - (intptr_t)from));
            PyObject *error = distance ? call_python("cellcrypt.buffers", "overlap", "(N)", distance) : NULL;
            if (error)
                PyErr_SetObject((PyObject *)Py_TYPE(error), error);
            Py_XDECREF(error);
            status = -1;
        }
    }
    if (status == 0 && (status = check_state(self, self->payload_len)) == 0)
        crypt_one(self, source.buf, target.buf);
    PyBuffer_Release(&target);
    PyBuffer_Release(&source);
    if (status)
        return NULL;
    Py_RETURN_NONE;
}

/* Sort two arguments, given by position or by name, into `out`; -1 with TypeError where they are not just those two. */
static int two_arguments(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject *first, PyObject *second,
                         const char *function, PyObject *out[2])
{
    Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (nargs + named == 2 && nargs <= 2) {
        out[0] = nargs > 0 ? args[0] : NULL;
        out[1] = nargs > 1 ? args[1] : NULL;
        for (Py_ssize_t i = 0; i < named; i++) {
            PyObject *name = PyTuple_GET_ITEM(kwnames, i);
            if (PyUnicode_Compare(name, first) == 0 && !out[0])
                out[0] = args[nargs + i];
            else if (PyUnicode_Compare(name, second) == 0 && !out[1])
                out[1] = args[nargs + i];
        }
        if (out[0] && out[1])
            return 0;
    }
    PyErr_Format(PyExc_TypeError, "%s() takes exactly two arguments, %U and %U", function, first, second);
    return -1;
}

static PyObject *cipher_crypt_into(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    Cipher *self = (Cipher *)op;
    /* Exact bytes and bytearray of the full length are two objects, so their memory can't overlap. */
    if (LIKELY(nargs == 2 && !kwnames && PyBytes_CheckExact(args[0]) && PyByteArray_CheckExact(args[1])
               && (size_t)PyBytes_GET_SIZE(args[0]) == self->payload_len
               && (size_t)PyByteArray_GET_SIZE(args[1]) == self->payload_len && self->state == 0)) {
        cc_xor_cells(stream_of(self), (const uint8_t *)PyBytes_AS_STRING(args[0]), (uint8_t *)PyByteArray_AS_STRING(args[1]),
                     self->payload_len, self->payload_len, 1);
        Py_RETURN_NONE;
    }
    State *state = state_of(op);
    PyObject *two[2];
    if (!state || two_arguments(args, nargs, kwnames, state->str_payload, state->str_out, "crypt_into", two))
        return NULL;
    return self->state & LIBRARY ? library_crypt_into(op, two[0], two[1]) : crypt_into_slow(self, two[0], two[1]);
}

/* ---- many cells ---- */

/* Read a cell format and count its cells in `length` octets; -1 with the error that formats.py raises. */
static Py_ssize_t count_cells(State *state, PyObject *cell_format, size_t payload_len, size_t length, size_t *header_len)
{
    if (cell_format != state->last_format) {
        if (!state->format_type) {
            PyObject *formats = PyImport_ImportModule("cellcrypt.formats");
            state->format_type = formats ? PyObject_GetAttrString(formats, "CellFormat") : NULL;
            Py_XDECREF(formats);
            if (!state->format_type)
                return -1;
        }
        int is_format = PyObject_IsInstance(cell_format, state->format_type);
        if (is_format < 0)
            return -1;
        if (is_format) {
            PyObject *header = PyObject_GetAttr(cell_format, state->str_header_len);
            PyObject *payload = header ? PyObject_GetAttr(cell_format, state->str_payload_len) : NULL;
            long header_value = payload ? PyLong_AsLong(header) : -1;
            long payload_value = payload ? PyLong_AsLong(payload) : -1;
            Py_XDECREF(header);
            Py_XDECREF(payload);
            if (PyErr_Occurred())
                return -1;
            state->header_len = (uint32_t)header_value;
            state->payload_len = (uint32_t)payload_value;
            Py_XSETREF(state->last_format, Py_NewRef(cell_format));
        }
    }
    if (LIKELY(cell_format == state->last_format && state->payload_len == payload_len)) {
        size_t cell_len = state->header_len + payload_len, count = length / cell_len;
        *header_len = state->header_len;
        if (LIKELY(count * cell_len == length))
            return (Py_ssize_t)count;
    }
    PyObject *count = call_python("cellcrypt.formats", "count_cells", "(nOn)", (Py_ssize_t)length, cell_format,
                                  (Py_ssize_t)payload_len);
    Py_XDECREF(count);
    if (count)
        PyErr_SetString(PyExc_SystemError, "count_cells() of cellcrypt.formats disagrees with the core");
    return -1;
}

/* The stream works as a copy, so that `position`, read by another thread meanwhile, is never torn. */
static void crypt_without_gil(Cipher *self, uint8_t *first, size_t stride, size_t payload_len, size_t count)
{
    cc_stream copy __attribute__((aligned(64)));
    memcpy(&copy, stream_of(self), sizeof copy);
    uint32_t paths = self->state & PATHS;
    self->state |= TAKEN;
    Py_BEGIN_ALLOW_THREADS
    crypt_payloads(&copy, paths, first, first, stride, payload_len, count);
    Py_END_ALLOW_THREADS
    memcpy(stream_of(self), &copy, sizeof copy);
    cc_wipe(&copy, sizeof copy);
    self->state &= ~(uint32_t)TAKEN;
}

static PyObject *cipher_crypt_cells(PyObject *op, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    Cipher *self = (Cipher *)op;
    State *state = state_of(op);
    PyObject *two[2];
    if (!state || two_arguments(args, nargs, kwnames, state->str_buffer, state->str_cell_format, "crypt_cells", two))
        return NULL;
    Py_buffer view;
    if (get_buffer(two[0], &view, 1, "buffer"))
        return NULL;
    size_t header_len, payload_len = self->payload_len;
    Py_ssize_t count = count_cells(state, two[1], payload_len, (size_t)view.len, &header_len);
    if (count > 0) {
        if (check_state(self, (size_t)count * payload_len) < 0)
            count = -1;
        else {
            uint8_t *first = (uint8_t *)view.buf + header_len;
            size_t stride = header_len + payload_len;
            if (count < CELLS_WITHOUT_GIL)
                crypt_payloads(stream_of(self), self->state, first, first, stride, payload_len, (size_t)count);
            else
                crypt_without_gil(self, first, stride, payload_len, (size_t)count);
        }
    } else if (count == 0 && check_state(self, 0) < 0)
        count = -1;
    PyBuffer_Release(&view);
    return count < 0 ? NULL : PyLong_FromSsize_t(count);
}

/* crypt_each(list or tuple of ciphers, buffer, cell_format) -> int, or None where circuits.py must look closer: another
 * kind of cipher, one whose state is not 0, another payload length, a wrong count. Nothing is written then. */
static PyObject *core_crypt_each(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    State *state = PyModule_GetState(module);
    if (nargs != 3 || !(PyList_Check(args[0]) || PyTuple_Check(args[0]))) {
        PyErr_SetString(PyExc_TypeError, "crypt_each() of the core takes a list or tuple, a buffer and a cell format");
        return NULL;
    }
    Py_buffer view;
    if (get_buffer(args[1], &view, 1, "buffer"))
        return NULL;
    Py_ssize_t ciphers = PySequence_Fast_GET_SIZE(args[0]);
    PyObject **items = PySequence_Fast_ITEMS(args[0]);
    PyObject *result = NULL;
    if (ciphers == 0 || Py_TYPE(items[0]) != state->cipher_type)
        goto look_closer;
    size_t header_len, payload_len = ((Cipher *)items[0])->payload_len;
    Py_ssize_t count = count_cells(state, args[2], payload_len, (size_t)view.len, &header_len);
    /* count_cells can have run Python code, which can have changed the list. */
    if (count != ciphers || PySequence_Fast_GET_SIZE(args[0]) != ciphers) {
        PyErr_Clear();
        goto look_closer;
    }
    items = PySequence_Fast_ITEMS(args[0]);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (i + 2 * PREFETCH_CIPHERS < count)
            PREFETCH(items[i + 2 * PREFETCH_CIPHERS]);
        Cipher *cipher = (Cipher *)items[i];
        if (Py_TYPE(cipher) != state->cipher_type || cipher->state != 0 || cipher->payload_len != payload_len)
            goto look_closer;
    }
    uint8_t *payload = (uint8_t *)view.buf + header_len;
    size_t stride = header_len + payload_len;
    for (Py_ssize_t i = 0; i < count; i++, payload += stride) {
        if (i + PREFETCH_CIPHERS < count) {
            const uint8_t *ahead = (const uint8_t *)stream_of((Cipher *)items[i + PREFETCH_CIPHERS]);
            for (size_t line = 0; line < sizeof(cc_stream); line += 64)
                PREFETCH(ahead + line);
        }
        cc_xor_cells(stream_of((Cipher *)items[i]), payload, payload, stride, payload_len, 1);
    }
    result = PyLong_FromSsize_t(count);
    PyBuffer_Release(&view);
    return result;
look_closer:
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
}

static PyObject *cipher_keystream(PyObject *op, PyObject *length_object)
{
    Cipher *self = (Cipher *)op;
    PyObject *checked = call_python("cellcrypt.buffers", "whole", "(Oss)", length_object, "length", "bytes");
    if (!checked)
        return NULL;
    Py_ssize_t length = PyLong_AsSsize_t(checked);
    Py_DECREF(checked);
    if (length < 0)
        return NULL;
    if (check_state(self, (size_t)length))
        return NULL;
    PyObject *out = PyBytes_FromStringAndSize(NULL, length);
    if (out)
        cc_keystream(stream_of(self), (uint8_t *)PyBytes_AS_STRING(out), (size_t)length);
    return out;
}

/* ---- for crypt_each over mixed ciphers (circuits.py): claim, one cell, release ---- */

static PyObject *cipher_claim(PyObject *op, PyObject *length_object)
{
    Cipher *self = (Cipher *)op;
    size_t length = PyLong_AsSize_t(length_object);
    if ((length == (size_t)-1 && PyErr_Occurred()) || check_state(self, length))
        return NULL;
    self->state |= TAKEN;
    Py_RETURN_NONE;
}

/* _take() -> whether this thread may go on: what a LibraryCipher's own _claim() asks. */
static PyObject *cipher_take(PyObject *op, PyObject *nothing)
{
    Cipher *self = (Cipher *)op;
    if (self->state & TAKEN)
        Py_RETURN_FALSE;
    self->state |= TAKEN;
    Py_RETURN_TRUE;
}

static PyObject *cipher_release(PyObject *op, PyObject *nothing)
{
    ((Cipher *)op)->state &= ~(uint32_t)TAKEN;
    Py_RETURN_NONE;
}

static PyObject *cipher_one_claimed(PyObject *op, PyObject *const *args, Py_ssize_t nargs)
{
    Cipher *self = (Cipher *)op;
    Py_buffer view;
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "_one_claimed() takes what _claim() returned, and a payload");
        return NULL;
    }
    if (get_buffer(args[1], &view, 1, "payload"))
        return NULL;
    int status = check_length((size_t)view.len, self->payload_len, "payload");
    if (status == 0) {
        if ((self->state & (CLOSED | TAKEN)) != TAKEN) {
            PyErr_SetString(PyExc_SystemError, "the cipher was not claimed");
            status = -1;
        } else
            crypt_one(self, view.buf, view.buf);
    }
    PyBuffer_Release(&view);
    if (status)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- position and life ---- */

static PyObject *cipher_seek(PyObject *op, PyObject *position_object)
{
    Cipher *self = (Cipher *)op;
    PyObject *position = call_python("cellcrypt.position", "check_position", "(O)", position_object);
    if (!position)
        return NULL;
    PyObject *parts = call_python("cellcrypt.position", "split_position", "(N)", position);
    unsigned long long hi, lo;
    unsigned within;
    int parsed = parts && PyArg_ParseTuple(parts, "KKI", &hi, &lo, &within);
    Py_XDECREF(parts);
    if (!parsed || check_state(self, 0))
        return NULL;
    cc_stream_seek(stream_of(self), (cc_counter){.lo = lo, .hi = hi}, within);
    note_near_end(self);
    Py_RETURN_NONE;
}

static PyObject *cipher_clone(PyObject *op, PyObject *nothing)
{
    Cipher *self = (Cipher *)op;
    if (check_state(self, 0))
        return NULL;
    PyTypeObject *type = Py_TYPE(op);
    Cipher *twin = (Cipher *)type->tp_alloc(type, 0);
    if (twin) {
        twin->state = self->state;
        twin->payload_len = self->payload_len;
        memcpy(stream_of(twin), stream_of(self), sizeof(cc_stream));
    }
    return (PyObject *)twin;
}

static PyObject *cipher_deepcopy(PyObject *op, PyObject *memo)
{
    return cipher_clone(op, NULL);
}

static PyObject *cipher_close(PyObject *op, PyObject *nothing)
{
    Cipher *self = (Cipher *)op;
    if (self->state & TAKEN) {
        refuse(self, 0);
        return NULL;
    }
    self->state |= CLOSED;
    /* The position and the kernel's name stay readable: neither is secret. */
    cc_wipe(stream_of(self)->round_keys, CC_ROUND_KEYS);
    cc_wipe(stream_of(self)->spare, CC_BLOCK);
    Py_RETURN_NONE;
}

static PyObject *cipher_enter(PyObject *op, PyObject *nothing)
{
    return Py_NewRef(op);
}

static PyObject *cipher_exit(PyObject *op, PyObject *const *args, Py_ssize_t nargs)
{
    return cipher_close(op, NULL);
}

static PyObject *cipher_reduce(PyObject *op, PyObject *protocol)
{
    return call_python("cellcrypt.position", "refuse_pickling", "(O)", op);
}

static void cipher_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    drop_loan((Cipher *)op);
    cc_wipe(((Cipher *)op)->storage, sizeof ((Cipher *)op)->storage);
    type->tp_free(op);
    Py_DECREF(type);
}

/* ---- what was chosen ---- */

static const char *path_of(const Cipher *self)
{
    return path_names[self->state & PATH_BYTE ? 1 : self->state & PATH_WORD ? 2 : 0];
}

static PyObject *get_position(PyObject *op, void *closure)
{
    return position_of((Cipher *)op);
}

static PyObject *get_lent_used(PyObject *op, void *closure)
{
    const Loan *loan = ((Cipher *)op)->loan;
    return PyLong_FromUnsignedLongLong(loan ? loan->used : 0);
}

static PyObject *get_payload_len(PyObject *op, void *closure)
{
    return PyLong_FromUnsignedLong(((Cipher *)op)->payload_len);
}

static PyObject *get_path(PyObject *op, void *closure)
{
    return PyUnicode_FromString(path_of((Cipher *)op));
}

static PyObject *get_backend(PyObject *op, void *closure)
{
    return PyUnicode_FromString("native");
}

static PyObject *get_kernel(PyObject *op, void *closure)
{
    const cc_kernel *kernel = stream_of((Cipher *)op)->kernel;
    return PyUnicode_FromString(kernel ? kernel->name : "");
}

static PyObject *cipher_repr(PyObject *op)
{
    return call_python("cellcrypt.position", "describe", "(OO)", op, ((Cipher *)op)->state & CLOSED ? Py_True : Py_False);
}

/* ---- making one ---- */

static const cc_kernel *best_kernel(void)
{
    static const cc_kernel *best; /* the same for every thread and interpreter, so a race writes the same value */
    if (!best)
        for (const cc_kernel *const *k = cc_kernels; *k && !best; k++)
            if (cc_kernel_usable(*k))
                best = *k;
    return best;
}

static PyObject *make_native(PyTypeObject *type, const uint8_t *key, size_t key_len, const uint8_t *iv, uint32_t payload_len,
                             uint32_t path, const cc_kernel *kernel)
{
    static const uint8_t zero_iv[CC_BLOCK];
    Cipher *self = (Cipher *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    cc_stream_init(stream_of(self), kernel, key, key_len, iv ? iv : zero_iv);
    self->state = path;
    self->payload_len = payload_len;
    return (PyObject *)self;
}

static int unset(const char *variable)
{
    const char *value = getenv(variable);
    return !value || !*value;
}

/* CellCipher(...): the usual arguments of a native cipher here, everything else in cipher.py. */
static PyObject *cipher_vectorcall(PyObject *type_object, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    PyTypeObject *type = (PyTypeObject *)type_object;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf), named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    PyObject *module = PyType_GetModule(type), *given[ARGUMENTS] = {NULL};
    State *state = module ? PyModule_GetState(module) : NULL;
    if (!state)
        return NULL;
    if (!state->proved || nargs > 2)
        goto slow;
    for (Py_ssize_t i = 0; i < nargs; i++)
        given[i] = args[i];
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i);
        int which = 0;
        while (which < ARGUMENTS && name != state->names[which])
            which++;
        if (which == ARGUMENTS || given[which])
            goto slow;
        given[which] = args[nargs + i];
    }
    if (given[BACKEND] && given[BACKEND] != Py_None) {
        if (given[BACKEND] != state->native)
            goto slow;
    } else if (!state->preferred || !unset("CELLCRYPT_BACKEND"))
        goto slow;
    if ((given[KERNEL] && given[KERNEL] != Py_None) || !unset("CELLCRYPT_KERNEL"))
        goto slow;
    if (!given[KEY] || !PyBytes_CheckExact(given[KEY]) || given[LOOKAHEAD])
        goto slow;
    size_t key_len = (size_t)PyBytes_GET_SIZE(given[KEY]);
    if (key_len != 16 && key_len != 24 && key_len != 32)
        goto slow;
    if (given[IV] && !(PyBytes_CheckExact(given[IV]) && PyBytes_GET_SIZE(given[IV]) == CC_BLOCK))
        goto slow;
    long payload_len = 509;
    if (given[PAYLOAD_LEN]) {
        if (!PyLong_CheckExact(given[PAYLOAD_LEN]))
            goto slow;
        int overflow;
        payload_len = PyLong_AsLongAndOverflow(given[PAYLOAD_LEN], &overflow);
        if (overflow || payload_len < 1 || payload_len > 65535)
            goto slow;
    }
    int path = 0;
    if (given[PATH]) {
        while (path < 3 && given[PATH] != state->paths[path])
            path++;
        if (path == 3)
            goto slow;
    }
    PyObject *self = make_native(type, (const uint8_t *)PyBytes_AS_STRING(given[KEY]), key_len,
                                 given[IV] ? (const uint8_t *)PyBytes_AS_STRING(given[IV]) : NULL, (uint32_t)payload_len,
                                 path_states[path], best_kernel());
    if (self)
        note_near_end((Cipher *)self);
    return self;
slow:;
    PyObject *python = PyImport_ImportModule("cellcrypt.cipher");
    PyObject *make = python ? PyObject_GetAttrString(python, "make") : NULL;
    Py_XDECREF(python);
    PyObject *result = make ? PyObject_Vectorcall(make, args, (size_t)nargs, kwnames) : NULL;
    Py_XDECREF(make);
    return result;
}

/* _blank(): an instance of LibraryCipher, which says all that the core needs to know by _lend(). */
static PyObject *cipher_blank(PyObject *type_object, PyObject *nothing)
{
    PyTypeObject *type = (PyTypeObject *)type_object;
    PyObject *self = type->tp_alloc(type, 0);
    if (self)
        ((Cipher *)self)->state = LIBRARY;
    return self;
}

/* CellCipher.__new__(CellCipher, ...): what calling the type does. */
static PyObject *cipher_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *python = PyImport_ImportModule("cellcrypt.cipher");
    PyObject *make = python ? PyObject_GetAttrString(python, "make") : NULL;
    PyObject *self = make ? PyObject_Call(make, args, kwargs) : NULL;
    Py_XDECREF(make);
    Py_XDECREF(python);
    return self;
}

static PyObject *cipher_init_subclass(PyObject *type, PyObject *nothing)
{
    PyObject *module = PyObject_GetAttrString(type, "__module__");
    int ours = module ? PyUnicode_CompareWithASCIIString(module, "cellcrypt.library") == 0 : -1;
    Py_XDECREF(module);
    if (ours == 1)
        Py_RETURN_NONE;
    if (ours == 0)
        PyErr_SetString(PyExc_TypeError, "CellCipher can't be subclassed: hold one instead");
    return NULL;
}

/* native_cipher(key, iv, payload_len, path, kernel): what cipher.py calls when every argument is checked. */
static PyObject *core_native_cipher(PyObject *module, PyObject *args)
{
    State *state = PyModule_GetState(module);
    const char *key, *iv, *path_name, *kernel_name;
    Py_ssize_t key_len, iv_len;
    unsigned payload_len;
    if (!PyArg_ParseTuple(args, "y#y#Iss", &key, &key_len, &iv, &iv_len, &payload_len, &path_name, &kernel_name))
        return NULL;
    int path = 0;
    while (path < 3 && strcmp(path_name, path_names[path]))
        path++;
    const cc_kernel *const *kernel = cc_kernels;
    while (*kernel && strcmp(kernel_name, (*kernel)->name))
        kernel++;
    if (path == 3 || !*kernel || !cc_kernel_usable(*kernel) || iv_len != CC_BLOCK || payload_len < 1 || payload_len > 65535
        || (key_len != 16 && key_len != 24 && key_len != 32)) {
        PyErr_SetString(PyExc_ValueError, "native_cipher() takes arguments that cipher.py has checked");
        return NULL;
    }
    PyObject *self = make_native(state->cipher_type, (const uint8_t *)key, (size_t)key_len, (const uint8_t *)iv, payload_len,
                                 path_states[path], *kernel);
    if (self)
        note_near_end((Cipher *)self);
    return self;
}

/* short_cut(proved, preferred): from now on CellCipher() makes the usual native cipher without asking Python. */
static PyObject *core_short_cut(PyObject *module, PyObject *args)
{
    State *state = PyModule_GetState(module);
    if (!PyArg_ParseTuple(args, "pp", &state->proved, &state->preferred))
        return NULL;
    Py_RETURN_NONE;
}

/* ---- the type ---- */

static PyMethodDef cipher_methods[] = {
    {"crypt", cipher_crypt, METH_O,
     "crypt($self, payload, /)\n--\n\n"
     "Return `payload` (payload_len bytes) encrypted or decrypted, as new bytes, and move the position by its length."},
    {"crypt_into", (PyCFunction)(void (*)(void))cipher_crypt_into, METH_FASTCALL | METH_KEYWORDS,
     "crypt_into($self, payload, out)\n--\n\n"
     "Write `payload`, encrypted or decrypted, into `out`: the same memory, or apart from it; both payload_len bytes."},
    {"crypt_in_place", cipher_crypt_in_place, METH_O,
     "crypt_in_place($self, payload, /)\n--\n\n"
     "Encrypt or decrypt `payload` (writable, payload_len bytes) where it lies, and move the position by its length."},
    {"crypt_cells", (PyCFunction)(void (*)(void))cipher_crypt_cells, METH_FASTCALL | METH_KEYWORDS,
     "crypt_cells($self, buffer, cell_format)\n--\n\n"
     "Encrypt or decrypt every wire cell in `buffer` where it lies, headers untouched; return how many there were."},
    {"keystream", cipher_keystream, METH_O,
     "keystream($self, length, /)\n--\n\nReturn the next `length` bytes of key stream, and move the position past them."},
    {"seek", cipher_seek, METH_O,
     "seek($self, position, /)\n--\n\n"
     "Go to byte `position` of the key stream, 0 to 16 * 2**128 - 1. Going back uses key stream twice."},
    {"clone", cipher_clone, METH_NOARGS,
     "clone($self, /)\n--\n\n"
     "Return an independent cipher at the same position: the only way to get the same key stream twice."},
    {"close", cipher_close, METH_NOARGS,
     "close($self, /)\n--\n\nWipe the round keys and the key stream; every later call but close() raises ClosedError."},
    {"_claim", cipher_claim, METH_O, NULL},
    {"_blank", cipher_blank, METH_NOARGS | METH_CLASS, NULL},
    {"_take", cipher_take, METH_NOARGS, NULL},
    {"_release", cipher_release, METH_NOARGS, NULL},
    {"_give", cipher_release, METH_NOARGS, NULL},
    {"_lend", cipher_lend, METH_VARARGS, NULL},
    {"_reclaim", cipher_reclaim, METH_NOARGS, NULL},
    {"_one_claimed", (PyCFunction)(void (*)(void))cipher_one_claimed, METH_FASTCALL, NULL},
    {"__enter__", cipher_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))cipher_exit, METH_FASTCALL, NULL},
    {"__copy__", cipher_clone, METH_NOARGS, NULL},
    {"__deepcopy__", cipher_deepcopy, METH_O, NULL},
    {"__reduce_ex__", cipher_reduce, METH_O, NULL},
    {"__init_subclass__", cipher_init_subclass, METH_NOARGS | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef cipher_getset[] = {
    {"position", get_position, NULL, "Key-stream bytes used so far, 0 to 16 * 2**128.", NULL},
    {"payload_len", get_payload_len, NULL, "Bytes in a payload.", NULL},
    {"path", get_path, NULL, "How key stream meets payload: \"byte\", \"word\" or \"fused\".", NULL},
    {"backend", get_backend, NULL, "The backend's name.", NULL},
    {"kernel", get_kernel, NULL, "The AES implementation inside the native backend; None for any other.", NULL},
    {"_lent_used", get_lent_used, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot cipher_slots[] = {
    {Py_tp_doc,
     "CellCipher(key, iv=bytes(16), *, payload_len=509, path='fused', backend=None, lookahead=0, kernel=None)\n--\n\n"
     "Encrypt the payloads of cells with AES-CTR, one key stream from the first cell to the last.\n\n"
     "Encrypting and decrypting are the same operation. A cipher serves one direction of one hop, and one thread at a\n"
     "time. After a fork, parent and child hold the same key stream: let only one of them go on. The full contract of\n"
     "each argument and call stands in the source of cellcrypt.cipher."},
    {Py_tp_new, cipher_new},
    {Py_tp_dealloc, cipher_dealloc},
    {Py_tp_repr, cipher_repr},
    {Py_tp_methods, cipher_methods},
    {Py_tp_getset, cipher_getset},
    {0, NULL},
};

static PyType_Spec cipher_spec = {
    .name = "cellcrypt.CellCipher",
    .basicsize = sizeof(Cipher),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = cipher_slots,
};

/* ---- XOR loops, features, limits ---- */

static PyObject *xor_views(PyObject *const *args, Py_ssize_t nargs, xor_loop *loop)
{
    Py_buffer out, keystream;
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "an XOR takes two buffers: out and key stream");
        return NULL;
    }
    if (get_buffer(args[0], &out, 1, "out"))
        return NULL;
    if (get_buffer(args[1], &keystream, 0, "key stream")) {
        PyBuffer_Release(&out);
        return NULL;
    }
    int status = check_length((size_t)keystream.len, (size_t)out.len, "key stream");
    if (status == 0)
        loop(out.buf, out.buf, keystream.buf, (size_t)out.len);
    PyBuffer_Release(&keystream);
    PyBuffer_Release(&out);
    if (status)
        return NULL;
    Py_RETURN_NONE;
}

/* (buffer, header_len, payload_len, key stream): a whole number of cells, and key stream for all of their payloads, which
 * is zero afterwards: wiped while it is in the nearest cache, and ready to be filled again. */
static PyObject *xor_cells(PyObject *args, xor_loop *loop)
{
    PyObject *buffer, *stream;
    Py_ssize_t header_len, payload_len;
    if (!PyArg_ParseTuple(args, "OnnO", &buffer, &header_len, &payload_len, &stream))
        return NULL;
    Py_buffer out, keystream;
    if (get_buffer(buffer, &out, 1, "buffer"))
        return NULL;
    if (get_buffer(stream, &keystream, 1, "key stream")) {
        PyBuffer_Release(&out);
        return NULL;
    }
    Py_ssize_t cell_len = header_len + payload_len;
    int status = -1;
    if (header_len < 0 || header_len > 255 || payload_len < 1 || payload_len > 65535 || out.len % cell_len)
        PyErr_SetString(PyExc_ValueError, "buffer must be a whole number of cells");
    else if ((status = check_length((size_t)keystream.len, (size_t)(out.len / cell_len * payload_len), "key stream")) == 0)
        for (Py_ssize_t i = 0; i < out.len / cell_len; i++) {
            uint8_t *payload = (uint8_t *)out.buf + i * cell_len + header_len;
            uint8_t *octets = (uint8_t *)keystream.buf + i * payload_len;
            loop(payload, payload, octets, (size_t)payload_len);
            memset(octets, 0, (size_t)payload_len);
        }
    PyBuffer_Release(&keystream);
    PyBuffer_Release(&out);
    if (status)
        return NULL;
    Py_RETURN_NONE;
}

#define XOR_FUNCTIONS(name, loop)                                                                  \
    static PyObject *core_xor_##name(PyObject *module, PyObject *const *args, Py_ssize_t nargs)    \
    {                                                                                              \
        return xor_views(args, nargs, loop);                                                       \
    }                                                                                              \
    static PyObject *core_xor_cells_##name(PyObject *module, PyObject *args)                       \
    {                                                                                              \
        return xor_cells(args, loop);                                                              \
    }
XOR_FUNCTIONS(byte, cc_xor_bytes)
XOR_FUNCTIONS(word, cc_xor_words)
XOR_FUNCTIONS(wide, cc_xor_wide)

static PyObject *core_address(PyObject *module, PyObject *object)
{
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE))
        return NULL;
    PyObject *address = PyLong_FromVoidPtr(view.buf);
    PyBuffer_Release(&view);
    return address;
}

static PyObject *core_kernels(PyObject *module, PyObject *nothing)
{
    PyObject *names = PyList_New(0);
    for (const cc_kernel *const *k = cc_kernels; names && *k; k++) {
        PyObject *name = cc_kernel_usable(*k) ? PyUnicode_FromString((*k)->name) : NULL;
        if (name && PyList_Append(names, name))
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

static PyObject *core_known_kernels(PyObject *module, PyObject *nothing)
{
    PyObject *names = PyList_New(0);
    for (const cc_kernel *const *k = cc_kernels; names && *k; k++) {
        PyObject *name = PyUnicode_FromString((*k)->name);
        if (!name || PyList_Append(names, name))
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

static PyObject *core_cpu_features(PyObject *module, PyObject *nothing)
{
    PyObject *features = PyDict_New();
    const char *name;
    int present;
    for (unsigned i = 0; features && (name = cc_cpu_feature(i, &present)); i++)
        if (PyDict_SetItemString(features, name, present ? Py_True : Py_False))
            Py_CLEAR(features);
    return features;
}

/* aes_limit(kernel, key_len, blocks): for the benchmarks, see cellcrypt.h. */
static PyObject *core_aes_limit(PyObject *module, PyObject *args)
{
    const char *name;
    Py_ssize_t key_len, blocks;
    if (!PyArg_ParseTuple(args, "snn", &name, &key_len, &blocks))
        return NULL;
    for (const cc_kernel *const *k = cc_kernels; *k; k++)
        if (strcmp(name, (*k)->name) == 0 && cc_kernel_usable(*k) && blocks >= 0
            && (key_len == 16 || key_len == 24 || key_len == 32)) {
            uint8_t key[32] = {0}, round_keys[CC_ROUND_KEYS] __attribute__((aligned(64)));
            (*k)->expand(round_keys, key, (size_t)key_len);
            return PyLong_FromUnsignedLongLong(cc_aes_limit(*k, round_keys, (unsigned)key_len / 4 + 6, (size_t)blocks));
        }
    PyErr_SetString(PyExc_ValueError, "aes_limit() takes a usable kernel, a key length of 16, 24 or 32 bytes, and blocks");
    return NULL;
}

/* memory_floor(buffer): XOR a constant into every octet, as the least that a pass over memory can cost. */
static PyObject *core_memory_floor(PyObject *module, PyObject *object)
{
    Py_buffer view;
    if (get_buffer(object, &view, 1, "buffer"))
        return NULL;
    uint8_t *octets = view.buf;
    for (Py_ssize_t i = 0; i < view.len; i++)
        octets[i] ^= 0x5a;
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
}

/* ---- the module ---- */

static PyMethodDef core_methods[] = {
    {"crypt_each", (PyCFunction)(void (*)(void))core_crypt_each, METH_FASTCALL, NULL},
    {"native_cipher", core_native_cipher, METH_VARARGS, NULL},
    {"short_cut", core_short_cut, METH_VARARGS, NULL},
    {"xor_byte", (PyCFunction)(void (*)(void))core_xor_byte, METH_FASTCALL, NULL},
    {"xor_word", (PyCFunction)(void (*)(void))core_xor_word, METH_FASTCALL, NULL},
    {"xor_wide", (PyCFunction)(void (*)(void))core_xor_wide, METH_FASTCALL, NULL},
    {"xor_cells_byte", core_xor_cells_byte, METH_VARARGS, NULL},
    {"xor_cells_word", core_xor_cells_word, METH_VARARGS, NULL},
    {"xor_cells_wide", core_xor_cells_wide, METH_VARARGS, NULL},
    {"address", core_address, METH_O, NULL},
    {"kernels", core_kernels, METH_NOARGS, NULL},
    {"known_kernels", core_known_kernels, METH_NOARGS, NULL},
    {"cpu_features", core_cpu_features, METH_NOARGS, NULL},
    {"aes_limit", core_aes_limit, METH_VARARGS, NULL},
    {"memory_floor", core_memory_floor, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static int intern(PyObject **slot, const char *text)
{
    *slot = PyUnicode_InternFromString(text);
    return *slot ? 0 : -1;
}

static int core_exec(PyObject *module)
{
    State *state = PyModule_GetState(module);
    for (int i = 0; i < ARGUMENTS; i++)
        if (intern(&state->names[i], argument_names[i]))
            return -1;
    for (int i = 0; i < 3; i++)
        if (intern(&state->paths[i], path_names[i]))
            return -1;
    if (intern(&state->native, "native") || intern(&state->str_payload, "payload") || intern(&state->str_out, "out")
        || intern(&state->str_buffer, "buffer") || intern(&state->str_cell_format, "cell_format")
        || intern(&state->str_header_len, "header_len") || intern(&state->str_payload_len, "payload_len"))
        return -1;
    state->cipher_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &cipher_spec, NULL);
    if (!state->cipher_type)
        return -1;
    state->cipher_type->tp_vectorcall = cipher_vectorcall;
    return PyModule_AddObjectRef(module, "CellCipher", (PyObject *)state->cipher_type);
}

static int core_traverse(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    if (state) {
        Py_VISIT(state->cipher_type);
        Py_VISIT(state->format_type);
        Py_VISIT(state->last_format);
    }
    return 0;
}

static int core_clear(PyObject *module)
{
    State *state = PyModule_GetState(module);
    if (!state)
        return 0;
    Py_CLEAR(state->cipher_type);
    Py_CLEAR(state->format_type);
    Py_CLEAR(state->last_format);
    for (int i = 0; i < ARGUMENTS; i++)
        Py_CLEAR(state->names[i]);
    for (int i = 0; i < 3; i++)
        Py_CLEAR(state->paths[i]);
    Py_CLEAR(state->native);
    Py_CLEAR(state->str_payload);
    Py_CLEAR(state->str_out);
    Py_CLEAR(state->str_buffer);
    Py_CLEAR(state->str_cell_format);
    Py_CLEAR(state->str_header_len);
    Py_CLEAR(state->str_payload_len);
    return 0;
}

static void core_free(void *module)
{
    core_clear(module);
}

static PyModuleDef_Slot core_slots[] = {
    {Py_mod_exec, core_exec},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "cellcrypt._core",
    .m_doc = "The C core of cellcrypt: for cellcrypt itself and its benchmarks.",
    .m_size = sizeof(State),
    .m_methods = core_methods,
    .m_slots = core_slots,
    .m_traverse = core_traverse,
    .m_clear = core_clear,
    .m_free = core_free,
};

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
