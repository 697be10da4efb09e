/* The fields of a tor1 payload that its encryption uses (tor-spec, "Relay cells"): recognized, octets 1 and 2, and digest,
 * octets 5 to 8. Their definitions in Python, which say what each is for, are those of onion/fields.py.
 *
 * The one branch on what stands in a payload is on these fields before they are filled in: what is there then is no part
 * of the cell.
 */
#include "module.h"

#include <string.h>

enum { RECOGNIZED = 1, RECOGNIZED_LEN = 2, DIGEST = 5, DIGEST_LEN = 4, HEADER_LEN = 9 };

static int is_zero(const uint8_t *payload)
{
    unsigned found = payload[1] | payload[2] | payload[5] | payload[6] | payload[7] | payload[8];
    return found == 0;
}

static int check_header(const Py_buffer *view, const char *name)
{
    if (LIKELY(view->len >= HEADER_LEN))
        return 0;
    PyErr_Format(PyExc_ValueError, "%s must be at least %d bytes, got %zd", name, HEADER_LEN, view->len);
    return -1;
}

static PyObject *tor1_cleared(PyObject *module, PyObject *payload)
{
    if (PyBytes_CheckExact(payload) && PyBytes_GET_SIZE(payload) >= HEADER_LEN
        && is_zero((const uint8_t *)PyBytes_AS_STRING(payload)))
        return Py_NewRef(payload);
    Py_buffer view;
    if (cc_get_buffer(payload, &view, 0, "payload"))
        return NULL;
    PyObject *made = check_header(&view, "payload") ? NULL : PyBytes_FromStringAndSize(view.buf, view.len);
    PyBuffer_Release(&view);
    if (made) {
        char *octets = PyBytes_AS_STRING(made);
        memset(octets + RECOGNIZED, 0, RECOGNIZED_LEN);
        memset(octets + DIGEST, 0, DIGEST_LEN);
    }
    return made;
}

static PyObject *tor1_mend(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 3) {
        PyErr_SetString(PyExc_TypeError, "tor1_mend() takes payload, what it was, and the tag");
        return NULL;
    }
    Py_buffer payload, before, tag;
    int status = -1;
    if (cc_get_buffer(args[0], &payload, 1, "payload"))
        return NULL;
    if (cc_get_buffer(args[1], &before, 0, "before"))
        goto no_before;
    if (cc_get_buffer(args[2], &tag, 0, "tag"))
        goto no_tag;
    if (check_header(&payload, "payload") || check_header(&before, "before"))
        goto done;
    if (tag.len < DIGEST_LEN) {
        PyErr_Format(PyExc_ValueError, "tag must be at least %d bytes, got %zd", DIGEST_LEN, tag.len);
        goto done;
    }
    uint8_t *octets = payload.buf;
    const uint8_t *old = before.buf, *digest = tag.buf;
    for (int i = RECOGNIZED; i < RECOGNIZED + RECOGNIZED_LEN; i++)
        octets[i] ^= old[i];
    for (int i = 0; i < DIGEST_LEN; i++)
        octets[DIGEST + i] ^= old[DIGEST + i] ^ digest[i];
    status = 0;
done:
    PyBuffer_Release(&tag);
no_tag:
    PyBuffer_Release(&before);
no_before:
    PyBuffer_Release(&payload);
    if (status)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *tor1_foreign(PyObject *module, PyObject *payload)
{
    Py_buffer view;
    if (cc_get_buffer(payload, &view, 0, "payload"))
        return NULL;
    int status = check_header(&view, "payload"), foreign = 0;
    if (status == 0) {
        const uint8_t *octets = view.buf;
        foreign = (octets[RECOGNIZED] | octets[RECOGNIZED + 1]) != 0;
    }
    PyBuffer_Release(&view);
    return status ? NULL : PyBool_FromLong(foreign);
}

static PyMethodDef functions[] = {
    {"tor1_cleared", tor1_cleared, METH_O, NULL},
    {"tor1_mend", (PyCFunction)(void (*)(void))tor1_mend, METH_FASTCALL, NULL},
    {"tor1_foreign", tor1_foreign, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

int cc_add_tor1(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
