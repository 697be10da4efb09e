/* The C contract of cellcrypt's core: what the files of this folder owe each other.
 *
 *   module*.c     what Python sees; they alone see Python.h, and module.h says what they owe each other
 *   ctr.c         the key stream: position, head, tail, carry; written once
 *   cpu.c         which kernels this processor can run
 *   kernel_*.c    AES for whole blocks, one instruction set each; nothing else uses that set
 *   xor.c         the byte, word and wide XOR loops
 *   cgo.h         Counter Galois Onion: what its files owe each other
 *
 * Rules
 *   - Every octet count is a size_t. Nothing here allocates, fails or reads the environment.
 *   - The block counter is 128 bits wide, big-endian on the wire (NIST SP 800-38A, appendix B.1); in memory it is the
 *     pair {lo, hi} of native integers and travels by value, in registers: two 8-octet stores that one 16-octet
 *     load picks up again would defeat store forwarding.
 *   - A kernel takes whole blocks and an explicit counter, and never writes the counter back. ctr.c alone knows the position.
 *   - No branch and no address depends on a key, on key stream or on a payload; they depend on lengths, strides and
 *     the counter, all of them public.
 */
#ifndef CELLCRYPT_H
#define CELLCRYPT_H

#include <stddef.h>
#include <stdint.h>

#define CC_BLOCK 16        /* octets in an AES block (FIPS-197, section 3.1) */
#define CC_MAX_ROUNDS 14   /* AES-256 (FIPS-197, section 5) */
#define CC_ROUND_KEYS (CC_BLOCK * (CC_MAX_ROUNDS + 1))

typedef struct {
    uint64_t lo, hi;
} cc_counter;

typedef struct cc_kernel cc_kernel;

/* One direction of one hop. 320 octets, 64-aligned by its owner: five cache lines, prefetched as a whole.
 * `spare` is the key-stream block that the position is in, of which `used` octets are gone (what stands in their place
 * means nothing); used == 16 means none is left. `next` is the counter of the block after it. */
typedef struct {
    uint8_t round_keys[CC_ROUND_KEYS]; /* in the kernel's own layout */
    uint8_t spare[CC_BLOCK];
    cc_counter next;
    cc_counter iv;      /* counter of block 0: position = 16 * (next - iv) - (16 - used), modulo the wrap */
    const cc_kernel *kernel;
    uint8_t rounds;     /* 10, 12 or 14 */
    uint8_t used;       /* 1..16 */
    uint8_t ended;      /* 1: the position is 16 * 2^128, no key stream is left */
    uint8_t reserved[21];
} cc_stream;

/* A kernel. Round keys are those of its own `expand`. */
struct cc_kernel {
    const char *name;   /* "vaes512", "vaes256", "aesni", "portable" */

    /* key: 16, 24 or 32 octets. */
    void (*expand)(uint8_t round_keys[CC_ROUND_KEYS], const uint8_t *key, size_t key_len);

    /* blocks of key stream from `counter` on, into out; any number; 128-bit carries are the caller's:
     * counter.lo + blocks must not exceed 2^64. The counter may be a secret (Counter Galois Onion's is). */
    void (*keystream)(const uint8_t *round_keys, unsigned rounds, cc_counter counter, uint8_t *out, size_t blocks);

    /* The quick path for cells, or NULL. What cc_xor_cells does, less the accounts: of the stream it writes `spare` only,
     * and ctr.c moves `next` and `used`. ctr.c guarantees len >= 80, 1 <= used <= 16, count >= 1 and that the counter
     * blocks of the whole call do not carry out of next.lo. */
    void (*xor_cells)(cc_stream *s, const uint8_t *in, uint8_t *out, size_t stride, size_t len, size_t count);

    /* xor_cells for one payload, or NULL; here too the counter may be a secret. */
    void (*xor_one)(cc_stream *s, const uint8_t *in, uint8_t *out, size_t len);

    /* Zero every vector register that the others use: what stays in one can get into memory later, when a signal or the
     * dynamic linker (the first call of a function) saves registers on the stack. */
    void (*forget)(void);

    /* See cc_aes_limit. */
    uint64_t (*aes_limit)(const uint8_t *round_keys, unsigned rounds, size_t blocks);
};

/* ---- ctr.c ---- */

void cc_stream_init(cc_stream *s, const cc_kernel *kernel, const uint8_t *key, size_t key_len, const uint8_t iv[CC_BLOCK]);

/* Go to octet `within` (0..15) of block number `block`; the caller has checked that it is not past the end. */
void cc_stream_seek(cc_stream *s, cc_counter block, unsigned within);

/* The position as block number and octets of it used (0..15); *ended != 0 stands for 16 * 2^128. */
cc_counter cc_stream_position(const cc_stream *s, unsigned *within, int *ended);

/* Whether `total` octets of key stream are left. */
int cc_stream_has(const cc_stream *s, size_t total);

/* XOR the next count * len octets of key stream into `count` payloads of len >= 1 octets, `stride` apart in both in
 * and out; out == in, or the two do not overlap. The caller has checked cc_stream_has. Moves the position. */
void cc_xor_cells(cc_stream *s, const uint8_t *in, uint8_t *out, size_t stride, size_t len, size_t count);

/* The next `len` octets of key stream. Moves the position. */
void cc_keystream(cc_stream *s, uint8_t *out, size_t len);

/* Wipe everything; the stream is then unusable until the next init. */
void cc_stream_wipe(cc_stream *s);

/* Clear what earlier calls of this thread may have left of secrets outside a stream: in vector registers and on the stack
 * below the caller, CC_FORGOTTEN octets down. Takes 0.2 microseconds, so it is for the end of a stream, not of a call. */
#define CC_FORGOTTEN 16384
void cc_forget(const cc_kernel *kernel);

/* A memset to zero that no compiler removes. */
void cc_wipe(void *p, size_t len);

/* ---- cpu.c ---- */

/* The kernels compiled in, best first, NULL-terminated; and those of them that this processor and operating system run. */
extern const cc_kernel *const cc_kernels[];
int cc_kernel_usable(const cc_kernel *k);
/* Bits named in cpu.c, for `info`: aes, avx2, avx512f, vaes, pclmul, … */
const char *cc_cpu_feature(unsigned index, int *present); /* NULL past the last */

/* The same-width AES loop, 16 independent chains, `blocks` blocks: the time below which the kernel can't go without
 * counter-mode caching. Returns something that depends on every block. */
uint64_t cc_aes_limit(const cc_kernel *k, const uint8_t *round_keys, unsigned rounds, size_t blocks);

/* `count` additions, rounded down to 16, each of which waits for the one before it: a cycle each, hence a clock. */
uint64_t cc_dependent_adds(uint64_t count);

/* ---- xor.c ---- out = in ^ keystream, `len` octets; out == in or apart. */
void cc_xor_bytes(uint8_t *out, const uint8_t *in, const uint8_t *keystream, size_t len); /* one octet at a time, never vectorised */
void cc_xor_words(uint8_t *out, const uint8_t *in, const uint8_t *keystream, size_t len); /* one uint32 at a time, then octets */
void cc_xor_wide(uint8_t *out, const uint8_t *in, const uint8_t *keystream, size_t len);  /* as wide as the compiler can */

#endif
