/* One cell of a LibraryCipher without a Python frame of ours, while what library.py lent is enough for it; otherwise the
 * call goes to library.py, which serves the cell and lends again. The rules stand in module.h.
 */
#include "module.h"

#include <string.h>

PyObject *cc_call_method(PyObject *op, const char *method, PyObject *first, PyObject *second)
{
    PyObject *name = PyUnicode_InternFromString(method);
    PyObject *result = name ? PyObject_CallMethodObjArgs(op, name, first, second, NULL) : NULL;
    Py_XDECREF(name);
    return result;
}

/* A view of bare memory ends here, even where a traceback or a debugger keeps it. */
static void drop_view(PyObject *view)
{
    if (view && Py_REFCNT(view) > 1) {
        PyObject *type, *error, *traceback;
        PyErr_Fetch(&type, &error, &traceback);
        Py_XDECREF(PyObject_CallMethod(view, "release", NULL));
        PyErr_Restore(type, error, traceback); /* also clears what release() raised */
    }
    Py_XDECREF(view);
}

static int call_live(const Loan *loan, PyObject *source, PyObject *destination)
{
    PyObject *arguments[] = {NULL, source, destination};
    PyObject *result = PyObject_Vectorcall(loan->live, arguments + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* live does it all; `source` is NULL in place. It is Python code in part, so an interrupt can end it when it has written already. */
static int crypt_live(const Loan *loan, PyObject *source, uint8_t *out, size_t len, PyObject *destination)
{
    PyObject *view = destination ? NULL : PyMemoryView_FromMemory((char *)out, (Py_ssize_t)len, PyBUF_WRITE);
    PyObject *to = destination ? destination : view;
    memcpy(loan->source.buf, out, len);
    int status = to ? call_live(loan, source ? source : loan->source.obj, to) : -1;
    if (status)
        memcpy(out, loan->source.buf, len);
    drop_view(view);
    return status;
}

static void end_loan(Cipher *self)
{
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    cc_drop_loan(self);
    PyErr_Restore(type, error, traceback);
}

/* One payload by what was lent: 1 done, 0 not possible, -1 the library failed, and the loan has ended; nothing is written
 * then. `source` is an object with the octets at `in`, NULL where these are the ones at `out`; `destination`, one with the
 * octets at `out`, or NULL. */
static int crypt_lent(Cipher *self, const uint8_t *in, uint8_t *out, PyObject *source, PyObject *destination)
{
    Loan *loan = self->loan;
    size_t len = self->payload_len;
    int status = 0;
    if (!loan || self->state & (TAKEN | CLOSED) || loan->left < len)
        return 0;
    self->state |= TAKEN;
    if (!loan->loop) {
        status = crypt_live(loan, source, out, len, destination);
    } else {
        if (loan->end - loan->start < len && loan->cell) {
            status = call_live(loan, loan->source.obj, loan->cell);
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
        self->lent_used += len;
        loan->left -= len;
    } else if (status < 0)
        end_loan(self);
    self->state &= ~(uint32_t)TAKEN;
    return status < 0 ? -1 : !status;
}

/* The library failed in what was lent: say so in library.py's words. An interrupt is none of its failures. */
static PyObject *lent_failed(PyObject *op)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return NULL;
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    PyObject *result = cc_call_method(op, "_lent_failed", error ? error : Py_None, NULL);
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

PyObject *cc_lent_crypt(PyObject *op, PyObject *payload)
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
    return cc_call_method(op, "_crypt", payload, NULL);
}

PyObject *cc_lent_crypt_in_place(PyObject *op, PyObject *payload)
{
    Cipher *self = (Cipher *)op;
    int status = 0;
    if (LIKELY(PyByteArray_CheckExact(payload) && (size_t)PyByteArray_GET_SIZE(payload) == self->payload_len)) {
        Py_buffer view; /* keeps the bytearray from being resized while the library runs */
        if (PyObject_GetBuffer(payload, &view, PyBUF_WRITABLE))
            return NULL;
        status = crypt_lent(self, view.buf, view.buf, NULL, payload);
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
    return cc_call_method(op, "_crypt_in_place", payload, NULL);
}

PyObject *cc_lent_crypt_into(PyObject *op, PyObject *payload, PyObject *out)
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
    return cc_call_method(op, "_crypt_into", payload, out);
}

void cc_drop_loan(Cipher *self)
{
    Loan *loan = self->loan;
    self->loan = NULL;
    if (loan) {
        PyBuffer_Release(&loan->store);
        PyBuffer_Release(&loan->source);
        Py_XDECREF(loan->cell);
        Py_XDECREF(loan->live);
        PyMem_Free(loan);
    }
}

/* _lend(live, store, cell, start, end, path, payload_len, left): see Loan. Between a _take() and its _release(). */
PyObject *cc_lend(PyObject *op, PyObject *args)
{
    Cipher *self = (Cipher *)op;
    PyObject *live, *store, *cell;
    Py_ssize_t start, end;
    const char *path;
    unsigned long long left;
    if (!PyArg_ParseTuple(args, "OOOnnsIK", &live, &store, &cell, &start, &end, &path, &self->payload_len, &left))
        return NULL;
    cc_drop_loan(self);
    Loan *loan = self->loan = PyMem_Calloc(1, sizeof *loan);
    if (!loan)
        return PyErr_NoMemory();
    loan->live = live == Py_None ? NULL : Py_NewRef(live);
    loan->cell = cell == Py_None ? NULL : Py_NewRef(cell);
    loan->left = left;
    if (store != Py_None) {
        if (PyObject_GetBuffer(store, &loan->store, PyBUF_WRITABLE)) {
            cc_drop_loan(self);
            return NULL;
        }
        loan->loop = *path == 'b' ? cc_xor_bytes : *path == 'w' ? cc_xor_words : cc_xor_wide;
        loan->start = (size_t)start;
        loan->end = (size_t)end;
    }
    PyObject *source = live == Py_None ? NULL : PyObject_CallFunction((PyObject *)&PyByteArray_Type, "I", self->payload_len);
    if (live != Py_None && (!source || PyObject_GetBuffer(source, &loan->source, PyBUF_WRITABLE))) {
        Py_XDECREF(source);
        cc_drop_loan(self);
        return NULL;
    }
    Py_XDECREF(source);
    if ((!loan->loop && !loan->live) || (loan->cell && !loan->live) || (loan->cell && loan->store.len < self->payload_len)
        || start < 0 || end < start || (loan->loop && end > loan->store.len)) {
        cc_drop_loan(self);
        PyErr_SetString(PyExc_SystemError, "_lend() takes what cipher.py has checked");
        return NULL;
    }
    Py_RETURN_NONE;
}

/* _reclaim() -> whether anything was lent, which no longer is. */
PyObject *cc_reclaim(PyObject *op, PyObject *nothing)
{
    int lent = ((Cipher *)op)->loan != NULL;
    cc_drop_loan((Cipher *)op);
    return PyBool_FromLong(lent);
}
