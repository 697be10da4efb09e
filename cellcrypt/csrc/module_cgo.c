/* _core.Cgo: one direction of one hop under Counter Galois Onion, one call for each cell.
 *
 * The rules of module.h hold. The GIL is held all along, since a cell takes little longer than letting go of it.
 *
 * The contract stands in cellcrypt/onion/cgo.py, Direction, which defines the same in Python. */
#include "module.h"

#include "cgo.h"

#include <string.h>

#define ALIGNMENT 64
#define RELAY_COMMAND 3 /* tor-spec, "Cell format": RELAY */

typedef struct {
    PyObject_HEAD
    int closed;
    uint8_t room[sizeof(cc_cgo) + ALIGNMENT]; /* Python aligns to 16 octets, vectors want 64 */
} Cgo;

static cc_cgo *state_of(Cgo *self)
{
    return (cc_cgo *)(((uintptr_t)self->room + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
}

/* ---- arguments ---- */

typedef struct {
    uint8_t *payload;
    uint8_t command;
    Py_buffer view; /* .obj is NULL where the payload is an exact bytearray */
} cell;

static void release(cell *in)
{
    if (in->view.obj)
        PyBuffer_Release(&in->view);
}

static int get_payload(PyObject *object, cell *in)
{
    Py_ssize_t len;
    in->view.obj = NULL;
    if (PyByteArray_CheckExact(object)) {
        in->payload = (uint8_t *)PyByteArray_AS_STRING(object);
        len = PyByteArray_GET_SIZE(object);
    } else {
        if (cc_get_buffer(object, &in->view, 1, "payload"))
            return -1;
        in->payload = in->view.buf;
        len = in->view.len;
    }
    if (cc_check_length((size_t)len, CC_CGO_PAYLOAD, "payload") == 0)
        return 0;
    release(in);
    return -1;
}

static int get_command(PyObject *object, cell *in)
{
    PyObject *number = PyNumber_Index(object);
    if (!number)
        return -1;
    int overflow;
    long command = PyLong_AsLongAndOverflow(number, &overflow);
    int wrong = overflow || command < 0 || command > 255;
    if (wrong) {
        PyObject *told = cc_call_python("cellcrypt.buffers", "told", "(O)", number);
        if (told)
            PyErr_Format(PyExc_ValueError, "command must be 0 to 255, got %U", told);
        Py_XDECREF(told);
    }
    Py_DECREF(number);
    in->command = (uint8_t)command;
    return wrong ? -1 : 0;
}

/* (payload, command=3), either by name. */
static int get_cell(Cgo *self, const char *method, PyObject *const *args, Py_ssize_t nargs, PyObject *names, cell *in)
{
    PyObject *payload = nargs > 0 ? args[0] : NULL, *command = nargs > 1 ? args[1] : NULL;
    Py_ssize_t named = names == NULL ? 0 : PyTuple_GET_SIZE(names);
    if (nargs > 2) {
        PyErr_Format(PyExc_TypeError, "%s() takes payload and command, got %zd arguments", method, nargs);
        return -1;
    }
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i);
        PyObject **to = PyUnicode_CompareWithASCIIString(name, "command") == 0   ? &command
                        : PyUnicode_CompareWithASCIIString(name, "payload") == 0 ? &payload
                                                                                : NULL;
        if (to == NULL || *to != NULL) {
            PyErr_Format(PyExc_TypeError, "%s() got %s argument %R", method, to == NULL ? "an unknown" : "a second", name);
            return -1;
        }
        *to = args[nargs + i];
    }
    if (payload == NULL) {
        PyErr_Format(PyExc_TypeError, "%s() needs a payload", method);
        return -1;
    }
    in->command = RELAY_COMMAND;
    if (command != NULL && get_command(command, in) < 0)
        return -1;
    if (get_payload(payload, in) < 0)
        return -1;
    if (self->closed) {
        Py_XDECREF(cc_call_python("cellcrypt.onion.cgo", "refuse_closed", "()"));
        release(in);
        return -1;
    }
    return 0;
}

/* ---- methods ---- */

static PyObject *originate(Cgo *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    cell in;
    PyObject *tag = PyBytes_FromStringAndSize(NULL, CC_CGO_TAG);
    if (tag == NULL || get_cell(self, "originate", args, nargs, names, &in) < 0) {
        Py_XDECREF(tag);
        return NULL;
    }
    cc_cgo_originate(state_of(self), in.payload, in.command, (uint8_t *)PyBytes_AS_STRING(tag));
    release(&in);
    return tag;
}

static PyObject *receive(Cgo *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    cell in;
    uint8_t tag[CC_CGO_TAG];
    if (get_cell(self, "receive", args, nargs, names, &in) < 0)
        return NULL;
    int ours = cc_cgo_receive(state_of(self), in.payload, in.command, tag);
    if (ours)
        cc_cgo_update(state_of(self));
    release(&in);
    if (!ours)
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((const char *)tag, CC_CGO_TAG);
}

static PyObject *pass_on(Cgo *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    cell in;
    if (get_cell(self, "pass_on", args, nargs, names, &in) < 0)
        return NULL;
    cc_cgo_pass(state_of(self), in.payload, in.command);
    release(&in);
    Py_RETURN_NONE;
}

static PyObject *close_(Cgo *self, PyObject *Py_UNUSED(ignored))
{
    cc_cgo_wipe(state_of(self));
    self->closed = 1;
    Py_RETURN_NONE;
}

/* ---- making and ending ---- */

/* Names of what this processor runs, as they come in messages. */
#define NAMES 100

static void add_name(char names[NAMES], const char *name)
{
    size_t length = strlen(names);
    PyOS_snprintf(names + length, NAMES - length, "%s%s", length ? ", " : "", name);
}

/* None means the best. */
static const cc_kernel *find_kernel(const char *name)
{
    char names[NAMES] = "";
    for (const cc_kernel *const *k = cc_kernels; *k; k++) {
        if (!cc_kernel_usable(*k))
            continue;
        if (!name || strcmp((*k)->name, name) == 0)
            return *k;
        add_name(names, (*k)->name);
    }
    PyErr_Format(PyExc_ValueError, "kernel must be one of %s, got '%s'", names, name);
    return NULL;
}

static const cc_polyval *find_polyval(const char *name, const cc_kernel *beside)
{
    char names[NAMES] = "";
    if (!name)
        return cc_polyval_beside(beside);
    for (const cc_polyval *const *p = cc_polyvals; *p; p++) {
        if (!cc_polyval_usable(*p))
            continue;
        if (strcmp((*p)->name, name) == 0)
            return *p;
        add_name(names, (*p)->name);
    }
    PyErr_Format(PyExc_ValueError, "polyval must be one of %s, got '%s'", names, name);
    return NULL;
}

static PyObject *new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"material", "client", "tag", "kernel", "polyval", NULL};
    Py_buffer material, tag = {0};
    int client;
    const char *kernel_name = NULL, *polyval_name = NULL;
    Cgo *self = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "y*p|y*zz:Cgo", names, &material, &client, &tag, &kernel_name,
                                     &polyval_name))
        return NULL;
    const cc_kernel *kernel = find_kernel(kernel_name);
    const cc_polyval *polyval = kernel == NULL ? NULL : find_polyval(polyval_name, kernel);
    if (polyval == NULL)
        ;
    else if (material.len != CC_CGO_MATERIAL(16) && material.len != CC_CGO_MATERIAL(32))
        PyErr_Format(PyExc_ValueError, "key material must be %d or %d bytes, got %zd", CC_CGO_MATERIAL(16),
                     CC_CGO_MATERIAL(32), material.len);
    else if (tag.obj != NULL && tag.len != CC_CGO_TAG)
        PyErr_Format(PyExc_ValueError, "tag must be %d bytes, got %zd", CC_CGO_TAG, tag.len);
    else if ((self = (Cgo *)type->tp_alloc(type, 0)) != NULL) {
        cc_cgo_init(state_of(self), kernel, polyval, client ? CC_CGO_CLIENT : CC_CGO_RELAY, material.buf,
                    material.len == CC_CGO_MATERIAL(16) ? 16 : 32);
        if (tag.obj != NULL)
            memcpy(state_of(self)->tag, tag.buf, CC_CGO_TAG);
    }
    PyBuffer_Release(&material);
    if (tag.obj != NULL)
        PyBuffer_Release(&tag);
    return (PyObject *)self;
}

static void dealloc(Cgo *self)
{
    PyTypeObject *type = Py_TYPE(self);
    cc_cgo_wipe(state_of(self));
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *get_kernel(Cgo *self, void *Py_UNUSED(closure))
{
    return self->closed ? Py_NewRef(Py_None) : PyUnicode_FromString(state_of(self)->kernel->name);
}

static PyObject *get_polyval(Cgo *self, void *Py_UNUSED(closure))
{
    return self->closed ? Py_NewRef(Py_None) : PyUnicode_FromString(state_of(self)->polyval->name);
}

#define CALL(f) ((PyCFunction)(void (*)(void))(f))

static PyMethodDef methods[] = {
    {"originate", CALL(originate), METH_FASTCALL | METH_KEYWORDS, "originate(payload, command=3) -> tag"},
    {"receive", CALL(receive), METH_FASTCALL | METH_KEYWORDS, "receive(payload, command=3) -> tag, or None"},
    {"pass_on", CALL(pass_on), METH_FASTCALL | METH_KEYWORDS, "pass_on(payload, command=3)"},
    {"close", CALL(close_), METH_NOARGS, "Wipe the keys."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"kernel", (getter)get_kernel, NULL, "The AES kernel's name.", NULL},
    {"polyval", (getter)get_polyval, NULL, "The POLYVAL kernel's name.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, new},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_tp_doc, "Cgo(material, client, tag=16 zeros, kernel=None, polyval=None): one direction of one hop."},
    {0, NULL},
};

static PyType_Spec spec = {"cellcrypt._core.Cgo", sizeof(Cgo), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};

/* ---- for the tests: POLYVAL by itself ---- */

static PyObject *polyval(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer key, data;
    const char *name = NULL;
    uint8_t out[CC_BLOCK];
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*y*|z:polyval", &key, &data, &name))
        return NULL;
    const cc_polyval *kernel = find_polyval(name, find_kernel(NULL));
    if (kernel != NULL && key.len != CC_BLOCK)
        PyErr_Format(PyExc_ValueError, "POLYVAL key must be %d bytes, got %zd", CC_BLOCK, key.len);
    else if (kernel != NULL) {
        cc_polyval_hash(kernel, out, key.buf, data.buf, (size_t)data.len);
        result = PyBytes_FromStringAndSize((const char *)out, CC_BLOCK);
    }
    PyBuffer_Release(&key);
    PyBuffer_Release(&data);
    return result;
}

static PyObject *polyval_kernels(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing))
{
    PyObject *names = PyList_New(0);
    for (const cc_polyval *const *p = cc_polyvals; names && *p; p++) {
        PyObject *name = cc_polyval_usable(*p) ? PyUnicode_FromString((*p)->name) : Py_NewRef(Py_None);
        if (!name || (name != Py_None && PyList_Append(names, name)))
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    PyObject *tuple = names ? PyList_AsTuple(names) : NULL;
    Py_XDECREF(names);
    return tuple;
}

static PyMethodDef functions[] = {
    {"polyval", polyval, METH_VARARGS, "polyval(key, data, kernel=None) -> 16 bytes"},
    {"polyval_kernels", polyval_kernels, METH_NOARGS, "polyval_kernels() -> tuple: those that this processor runs, best first"},
    {NULL, NULL, 0, NULL},
};

/* Called by module.c for the module that it is making. */
int cc_add_cgo(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &spec, NULL);
    int status = type ? PyModule_AddObjectRef(module, "Cgo", type) : -1;
    Py_XDECREF(type);
    return status ? status : PyModule_AddFunctions(module, functions);
}
