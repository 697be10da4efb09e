/* The type CellCipher over the native kernels, and crypt_each: one call, one cell or many, with no Python frame between
 * the caller and the kernel. The rules stand in module.h.
 */
#include "module.h"

#include <stdlib.h>
#include <string.h>

/* Cells in one call from which letting go of the GIL costs less than it can give (37 ns, see perf/bench_native.py). */
#define CELLS_WITHOUT_GIL 256
/* Ciphers whose state crypt_each asks for ahead of the one it works on. */
#define PREFETCH_CIPHERS 4
/* Key stream at once for the byte and word paths, in octets: a multiple of a word and of a block. */
#define PATH_CHUNK 2048

const char *const cc_path_names[3] = {"fused", "byte", "word"};
static const uint32_t path_states[3] = {0, PATH_BYTE, PATH_WORD};

static State *state_of(PyObject *cipher)
{
    PyObject *module = PyType_GetModuleByDef(Py_TYPE(cipher), &cc_definition);
    return module ? PyModule_GetState(module) : NULL;
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
    PyObject *error = cc_call_python("cellcrypt.position", "refusal", "(iiNn)", !!(self->state & TAKEN),
                                  !!(self->state & CLOSED), position, (Py_ssize_t)length);
    cc_raise(error);
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

/* ---- one cell ---- */

static PyObject *crypt_slow(Cipher *self, PyObject *payload)
{
    Py_buffer view;
    if (cc_get_buffer(payload, &view, 0, "payload"))
        return NULL;
    PyObject *out = NULL;
    if (cc_check_length((size_t)view.len, self->payload_len, "payload") == 0 && check_state(self, self->payload_len) == 0) {
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
    return self->state & LIBRARY ? cc_lent_crypt(op, payload) : crypt_slow(self, payload);
}

static PyObject *crypt_in_place_slow(Cipher *self, PyObject *buffer)
{
    Py_buffer view;
    if (cc_get_buffer(buffer, &view, 1, "payload"))
        return NULL;
    int status = cc_check_length((size_t)view.len, self->payload_len, "payload");
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
    return self->state & LIBRARY ? cc_lent_crypt_in_place(op, buffer) : crypt_in_place_slow(self, buffer);
}

static PyObject *crypt_into_slow(Cipher *self, PyObject *payload, PyObject *out)
{
    Py_buffer source, target;
    if (cc_get_buffer(payload, &source, 0, "payload"))
        return NULL;
    if (cc_get_buffer(out, &target, 1, "out")) {
        PyBuffer_Release(&source);
        return NULL;
    }
    int status = cc_check_length((size_t)source.len, self->payload_len, "payload");
    if (status == 0)
        status = cc_check_length((size_t)target.len, self->payload_len, "out");
    if (status == 0) {
        uintptr_t from = (uintptr_t)source.buf, to = (uintptr_t)target.buf;
        if (from != to && (from < to ? to - from : from - to) < self->payload_len) {
            PyObject *distance = PyLong_FromLongLong((long long)((intptr_t)to - (intptr_t)from));
            PyObject *error = distance ? cc_call_python("cellcrypt.buffers", "overlap", "(N)", distance) : NULL;
            cc_raise(error);
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
    return self->state & LIBRARY ? cc_lent_crypt_into(op, two[0], two[1]) : crypt_into_slow(self, two[0], two[1]);
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
        if ((PyObject *)Py_TYPE(cell_format) == state->format_type) {
            PyObject *header = PyObject_GetAttr(cell_format, state->str_header_len);
            PyObject *payload = header ? PyObject_GetAttr(cell_format, state->str_payload_len) : NULL;
            long header_value = payload ? PyLong_AsLong(header) : -1;
            long payload_value = payload ? PyLong_AsLong(payload) : -1;
            Py_XDECREF(header);
            Py_XDECREF(payload);
            if (PyErr_Occurred())
                return -1;
            if (header_value >= 0 && header_value <= 255 && payload_value >= 1 && payload_value <= 65535) {
                state->header_len = (uint32_t)header_value;
                state->payload_len = (uint32_t)payload_value;
                Py_XSETREF(state->last_format, Py_NewRef(cell_format));
            }
        }
    }
    if (LIKELY(cell_format == state->last_format && state->payload_len == payload_len)) {
        size_t cell_len = state->header_len + payload_len, count = length / cell_len;
        *header_len = state->header_len;
        if (LIKELY(count * cell_len == length))
            return (Py_ssize_t)count;
    }
    PyObject *count = cc_call_python("cellcrypt.formats", "count_cells", "(nOn)", (Py_ssize_t)length, cell_format,
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
    if (self->state & LIBRARY)
        return cc_call_method(op, "crypt_cells", two[0], two[1]);
    Py_buffer view;
    if (cc_get_buffer(two[0], &view, 1, "buffer"))
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
PyObject *cc_crypt_each(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    State *state = PyModule_GetState(module);
    if (nargs != 3 || !(PyList_Check(args[0]) || PyTuple_Check(args[0]))) {
        PyErr_SetString(PyExc_TypeError, "crypt_each() of the core takes a list or tuple, a buffer and a cell format");
        return NULL;
    }
    Py_buffer view;
    if (cc_get_buffer(args[1], &view, 1, "buffer"))
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
        if (count < 0 && !PyErr_ExceptionMatches(PyExc_Exception)) { /* an interrupt, no refusal */
            PyBuffer_Release(&view);
            return NULL;
        }
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
    if (self->state & LIBRARY)
        return cc_call_method(op, "keystream", length_object, NULL);
    PyObject *checked = cc_call_python("cellcrypt.buffers", "whole", "(Oss)", length_object, "length", "bytes");
    if (!checked)
        return NULL;
    Py_ssize_t length = PyLong_AsSsize_t(checked);
    if (length < 0) { /* more than memory has, perhaps more than the key stream, which is to be said first */
        PyErr_Clear();
        PyObject *position = check_state(self, 0) ? NULL : position_of(self);
        Py_XDECREF(position ? cc_call_python("cellcrypt.position", "check_left", "(NO)", position, checked) : NULL);
        if (!PyErr_Occurred())
            PyErr_NoMemory();
    }
    Py_DECREF(checked);
    if (length < 0)
        return NULL;
    if (check_state(self, (size_t)length))
        return NULL;
    PyObject *out = PyBytes_FromStringAndSize(NULL, length);
    if (out)
        cc_keystream(stream_of(self), (uint8_t *)PyBytes_AS_STRING(out), (size_t)length);
    else if (PyErr_ExceptionMatches(PyExc_OverflowError)) /* more than a bytes object can hold */
        PyErr_NoMemory();
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
    if (cc_get_buffer(args[1], &view, 1, "payload"))
        return NULL;
    int status = cc_check_length((size_t)view.len, self->payload_len, "payload");
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
    if (self->state & LIBRARY)
        return cc_call_method(op, "seek", position_object, NULL);
    PyObject *position = cc_call_python("cellcrypt.position", "check_position", "(O)", position_object);
    if (!position)
        return NULL;
    PyObject *parts = cc_call_python("cellcrypt.position", "split_position", "(N)", position);
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
    if (self->state & LIBRARY)
        return cc_call_method(op, "clone", NULL, NULL);
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
    if (self->state & LIBRARY)
        return cc_call_method(op, "close", NULL, NULL);
    if (self->state & TAKEN) {
        refuse(self, 0);
        return NULL;
    }
    self->state |= CLOSED;
    /* The position and the kernel's name stay readable: neither is secret. */
    cc_wipe(stream_of(self)->round_keys, CC_ROUND_KEYS);
    cc_wipe(stream_of(self)->spare, CC_BLOCK);
    cc_forget(stream_of(self)->kernel);
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
    return cc_call_python("cellcrypt.position", "refuse_pickling", "(O)", op);
}

static void cipher_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    Cipher *self = (Cipher *)op;
    const cc_stream *s = stream_of(self);
    const cc_kernel *kernel = s->kernel;
    int worked = !(self->state & CLOSED) && (s->next.lo != s->iv.lo || s->next.hi != s->iv.hi || s->used != CC_BLOCK);
    cc_drop_loan(self);
    cc_wipe(self->storage, sizeof self->storage);
    if (kernel && worked) /* the key schedule alone leaves nothing */
        cc_forget(kernel);
    type->tp_free(op);
    Py_DECREF(type);
}

/* ---- what was chosen ---- */

static const char *path_of(const Cipher *self)
{
    return cc_path_names[self->state & PATH_BYTE ? 1 : self->state & PATH_WORD ? 2 : 0];
}

static PyObject *get_position(PyObject *op, void *closure)
{
    return position_of((Cipher *)op);
}

static PyObject *get_lent_used(PyObject *op, void *closure)
{
    return PyLong_FromUnsignedLongLong(((Cipher *)op)->lent_used);
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
    return cc_call_python("cellcrypt.position", "describe", "(OO)", op, ((Cipher *)op)->state & CLOSED ? Py_True : Py_False);
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
PyObject *cc_native_cipher(PyObject *module, PyObject *args)
{
    State *state = PyModule_GetState(module);
    const char *path_name, *kernel_name;
    Py_buffer key, iv; /* any buffer, so that nobody makes bytes of a key, which can't be wiped */
    unsigned payload_len;
    if (!PyArg_ParseTuple(args, "y*y*Iss", &key, &iv, &payload_len, &path_name, &kernel_name))
        return NULL;
    int path = 0;
    while (path < 3 && strcmp(path_name, cc_path_names[path]))
        path++;
    const cc_kernel *const *kernel = cc_kernels;
    while (*kernel && strcmp(kernel_name, (*kernel)->name))
        kernel++;
    PyObject *self = NULL;
    if (path == 3 || !*kernel || !cc_kernel_usable(*kernel) || iv.len != CC_BLOCK || payload_len < 1 || payload_len > 65535
        || (key.len != 16 && key.len != 24 && key.len != 32))
        PyErr_SetString(PyExc_ValueError, "native_cipher() takes arguments that cipher.py has checked");
    else
        self = make_native(state->cipher_type, key.buf, (size_t)key.len, iv.buf, payload_len, path_states[path], *kernel);
    PyBuffer_Release(&iv);
    PyBuffer_Release(&key);
    if (self)
        note_near_end((Cipher *)self);
    return self;
}

/* short_cut(proved, preferred): from now on CellCipher() makes the usual native cipher without asking Python. */
PyObject *cc_short_cut(PyObject *module, PyObject *args)
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
    {"_lend", cc_lend, METH_VARARGS, NULL},
    {"_reclaim", cc_reclaim, METH_NOARGS, NULL},
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

PyTypeObject *cc_make_cipher_type(PyObject *module)
{
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &cipher_spec, NULL);
    if (type)
        type->tp_vectorcall = cipher_vectorcall;
    return type;
}
