/* cellcrypt._core: the C core as Python sees it. With the other module*.c the only file that includes Python.h.
 *
 * What lives here: the gate for buffers, the XOR loops, what `info` and the benchmarks ask, and the module itself.
 * The rules of all of these files stand in module.h.
 */
#include "module.h"

#include <string.h>

/* ---- the gate, and refusals in Python's words ---- */

PyObject *cc_call_python(const char *module_name, const char *function, const char *format, ...)
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
int cc_get_buffer(PyObject *object, Py_buffer *view, int writable, const char *name)
{
    if (LIKELY(PyObject_GetBuffer(object, view, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) == 0))
        return 0;
    PyErr_Clear();
    PyObject *flat = cc_call_python("cellcrypt.buffers", writable ? "writable" : "readable", "(Os)", object, name);
    if (!flat)
        return -1;
    int status = PyObject_GetBuffer(flat, view, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE);
    Py_DECREF(flat);
    return status;
}

int cc_check_length(size_t got, size_t expected, const char *name)
{
    if (LIKELY(got == expected))
        return 0;
    Py_XDECREF(cc_call_python("cellcrypt.buffers", "check_length", "(nsn)", (Py_ssize_t)got, name, (Py_ssize_t)expected));
    return -1;
}

void cc_raise(PyObject *error)
{
    if (error)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
}

/* ---- XOR loops, features, limits ---- */

static PyObject *xor_views(PyObject *const *args, Py_ssize_t nargs, xor_loop *loop)
{
    Py_buffer out, keystream;
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "an XOR takes two buffers: out and key stream");
        return NULL;
    }
    if (cc_get_buffer(args[0], &out, 1, "out"))
        return NULL;
    if (cc_get_buffer(args[1], &keystream, 0, "key stream")) {
        PyBuffer_Release(&out);
        return NULL;
    }
    int status = cc_check_length((size_t)keystream.len, (size_t)out.len, "key stream");
    if (status == 0)
        loop(out.buf, out.buf, keystream.buf, (size_t)out.len);
    PyBuffer_Release(&keystream);
    PyBuffer_Release(&out);
    if (status)
        return NULL;
    Py_RETURN_NONE;
}

/* (buffer, header_len, payload_len, key stream, wipe=False): a whole number of cells, and key stream for all of their
 * payloads; wiping it here costs little, since it is in the nearest cache, and it is ready to be filled again. */
static PyObject *xor_cells(PyObject *args, xor_loop *loop)
{
    PyObject *buffer, *stream;
    Py_ssize_t header_len, payload_len;
    int wipe = 0;
    if (!PyArg_ParseTuple(args, "OnnO|p", &buffer, &header_len, &payload_len, &stream, &wipe))
        return NULL;
    Py_buffer out, keystream;
    if (cc_get_buffer(buffer, &out, 1, "buffer"))
        return NULL;
    if (cc_get_buffer(stream, &keystream, wipe, "key stream")) {
        PyBuffer_Release(&out);
        return NULL;
    }
    Py_ssize_t cell_len = header_len + payload_len;
    int status = -1;
    if (header_len < 0 || header_len > 255 || payload_len < 1 || payload_len > 65535 || out.len % cell_len)
        PyErr_SetString(PyExc_ValueError, "buffer must be a whole number of cells");
    else if ((status = cc_check_length((size_t)keystream.len, (size_t)(out.len / cell_len * payload_len), "key stream")) == 0)
        for (Py_ssize_t i = 0; i < out.len / cell_len; i++) {
            uint8_t *payload = (uint8_t *)out.buf + i * cell_len + header_len;
            uint8_t *octets = (uint8_t *)keystream.buf + i * payload_len;
            loop(payload, payload, octets, (size_t)payload_len);
            if (wipe)
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

/* dependent_adds(count): take that many cycles, for clock.py. */
static PyObject *core_dependent_adds(PyObject *module, PyObject *count)
{
    unsigned long long number = PyLong_AsUnsignedLongLong(count);
    if (number == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    return PyLong_FromUnsignedLongLong(cc_dependent_adds(number));
}

/* memory_floor(buffer): XOR a constant into every octet, as the least that a pass over memory can cost. */
static PyObject *core_memory_floor(PyObject *module, PyObject *object)
{
    Py_buffer view;
    if (cc_get_buffer(object, &view, 1, "buffer"))
        return NULL;
    uint8_t *octets = view.buf;
    Py_ssize_t len = view.len; /* a copy: octets might alias view, and the loop would stay one over octets */
    for (Py_ssize_t i = 0; i < len; i++)
        octets[i] ^= 0x5a;
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
}

/* ---- the module ---- */

static PyMethodDef core_methods[] = {
    {"crypt_each", (PyCFunction)(void (*)(void))cc_crypt_each, METH_FASTCALL, NULL},
    {"native_cipher", cc_native_cipher, METH_VARARGS, NULL},
    {"short_cut", cc_short_cut, METH_VARARGS, NULL},
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
    {"dependent_adds", core_dependent_adds, METH_O, NULL},
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
    static const char *const argument_names[ARGUMENTS] = {"key",     "iv",        "payload_len", "path",
                                                          "backend", "lookahead", "kernel"};
    for (int i = 0; i < ARGUMENTS; i++)
        if (intern(&state->names[i], argument_names[i]))
            return -1;
    for (int i = 0; i < 3; i++)
        if (intern(&state->paths[i], cc_path_names[i]))
            return -1;
    if (intern(&state->native, "native") || intern(&state->str_payload, "payload") || intern(&state->str_out, "out")
        || intern(&state->str_buffer, "buffer") || intern(&state->str_cell_format, "cell_format")
        || intern(&state->str_header_len, "header_len") || intern(&state->str_payload_len, "payload_len"))
        return -1;
    state->cipher_type = cc_make_cipher_type(module);
    if (!state->cipher_type)
        return -1;
    if (PyModule_AddObjectRef(module, "CellCipher", (PyObject *)state->cipher_type))
        return -1;
    return cc_add_tor1(module) || cc_add_cgo(module) ? -1 : 0;
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

struct PyModuleDef cc_definition = {
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
    return PyModuleDef_Init(&cc_definition);
}
