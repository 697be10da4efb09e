/* What the files that see Python.h owe each other: module.c (the gate, the loops, the module), module_cipher.c (the type
 * CellCipher over the native kernels), module_lent.c (a library's cell without a Python frame), module_cgo.c (the type Cgo),
 * module_tor1.c (the fields of a tor1 payload).
 *
 * Rules
 *   - The quick case stands first in each call and is one test: exact bytes or bytearray, right length, state == 0.
 *     Everything else takes the slow way, where the words of every refusal come from Python (buffers.py, position.py).
 *   - Check, then write, then move; a call that raises has changed nothing.
 *   - The GIL guards the state. A call that lets go of it marks the cipher as taken first. The core therefore does not
 *     claim to run without the GIL, and a free-threaded interpreter turns it on for us.
 *   - Every method serves a LibraryCipher too, by calling that one's own: CellCipher.clone(cipher), copy.copy and `with`
 *     reach the core's directly.
 *   - A buffer is got before the state is looked at: getting one may run Python code, and that may use this cipher.
 */
#ifndef CELLCRYPT_MODULE_H
#define CELLCRYPT_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "cellcrypt.h"

#if defined(__GNUC__)
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define PREFETCH(p) __builtin_prefetch((p), 1, 3)
#else
#define LIKELY(x) (x)
#define PREFETCH(p) ((void)(p))
#endif

typedef void xor_loop(uint8_t *, const uint8_t *, const uint8_t *, size_t);

enum { CLOSED = 1, TAKEN = 2, PATH_BYTE = 4, PATH_WORD = 8, NEAR_END = 16, LIBRARY = 32 };
#define PATHS (PATH_BYTE | PATH_WORD)


/* What a LibraryCipher of library.py lends to the core, so that its usual cell needs no Python frame of ours either:
 * a call that XORs the next key stream of the library's context, or key stream made ahead, or both. */
typedef struct {
    PyObject *live;      /* (source, destination), or NULL */
    Py_buffer store;     /* key stream made ahead; store.obj NULL where there is none */
    PyObject *cell;      /* the store's first payload_len octets, which live may fill with key stream; or NULL */
    Py_buffer source;    /* payload_len octets for live to read, which never writes where it reads: zeros for key stream,
                          * otherwise what stood where it writes, which comes back should it fail */
    size_t start, end;   /* of the store that is not used yet */
    xor_loop *loop;      /* how key stream meets payload; NULL: live does both */
    uint64_t left;       /* octets that may still be used */
} Loan;

typedef struct {
    PyObject_HEAD
    uint32_t state;       /* 0: native, open, free, path fused, and 2^64 blocks or more from the end */
    uint32_t payload_len; /* 1..65535 */
    Loan *loan;           /* of a LibraryCipher; NULL in a native one */
    uint64_t lent_used;   /* octets that all of its loans have used */
    /* The stream, 64-aligned by hand since Python's allocator aligns to 16 (PyObject_Malloc), wherever this member lies. */
    uint8_t storage[sizeof(cc_stream) + 63];
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

/* ---- module.c ---- */

extern struct PyModuleDef cc_definition;

/* Call a function of ours in Python; arguments as for Py_BuildValue, in parentheses. */
PyObject *cc_call_python(const char *module_name, const char *function, const char *format, ...);

/* Get a flat buffer, or the error of buffers.py, which calls it `name`; 0 or -1. */
int cc_get_buffer(PyObject *object, Py_buffer *view, int writable, const char *name);

/* 0, or -1 with the error of buffers.py for a wrong length in octets. */
int cc_check_length(size_t got, size_t expected, const char *name);

/* Raise the exception object that a function of ours made; NULL raises what is raised already. Takes the reference. */
void cc_raise(PyObject *error);

/* ---- module_cipher.c ---- */

extern const char *const cc_path_names[3];
PyTypeObject *cc_make_cipher_type(PyObject *module);
PyObject *cc_crypt_each(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *cc_native_cipher(PyObject *module, PyObject *args);
PyObject *cc_short_cut(PyObject *module, PyObject *args);

/* ---- module_lent.c ---- */

/* Call a method that LibraryCipher has of its own, with one or two arguments, or none; the first NULL ends them. */
PyObject *cc_call_method(PyObject *cipher, const char *method, PyObject *first, PyObject *second);
PyObject *cc_lent_crypt(PyObject *cipher, PyObject *payload);
PyObject *cc_lent_crypt_in_place(PyObject *cipher, PyObject *payload);
PyObject *cc_lent_crypt_into(PyObject *cipher, PyObject *payload, PyObject *out);
PyObject *cc_lend(PyObject *cipher, PyObject *args);
PyObject *cc_reclaim(PyObject *cipher, PyObject *nothing);
void cc_drop_loan(Cipher *cipher);

/* ---- module_tor1.c ---- */

/* Add what onion/fields.py asks for; 0 or -1. */
int cc_add_tor1(PyObject *module);

/* ---- module_cgo.c ---- */

/* Add the type Cgo and what belongs to it; 0 or -1. */
int cc_add_cgo(PyObject *module);

#endif
