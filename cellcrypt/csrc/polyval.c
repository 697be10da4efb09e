/* POLYVAL (RFC 8452, section 3): the kernels' table, the portable kernel, and the hash of a message of any length.
 *
 * The portable kernel multiplies polynomials with integer multiplications: operands are cut into four parts, of which
 * each has every fourth bit only. A product of two such parts adds at most sixteen ones in one place, and their carries
 * stay within the three zeros above it or fall out at the top, so every fourth bit of the sum is the bit without carries.
 * (T. Pornin, BearSSL: "Constant-time GHASH".) Nothing looks anything up. It takes constant time where the processor's
 * multiplication does: not on the smallest ARM cores.
 */
#include "cgo.h"
#include "kernel.h"

static uint64_t load64(const uint8_t *p)
{
    uint64_t x = 0;
    for (int i = 7; i >= 0; i--)
        x = x << 8 | p[i];
    return x;
}

static void store64(uint8_t *p, uint64_t x)
{
    for (int i = 0; i < 8; i++, x >>= 8)
        p[i] = (uint8_t)x;
}

/* The lower 64 coefficients of a * b. */
static uint64_t multiply_low(uint64_t a, uint64_t b)
{
    const uint64_t every4 = 0x1111111111111111u;
    uint64_t product = 0;
#pragma GCC unroll 4
    for (int place = 0; place < 4; place++) {
        uint64_t sum = 0;
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            sum ^= (a & every4 << i) * (b & every4 << ((place - i) & 3));
        product |= sum & every4 << place;
    }
    return product;
}

static uint64_t reverse(uint64_t x)
{
    x = (x >> 1 & 0x5555555555555555u) | (x & 0x5555555555555555u) << 1;
    x = (x >> 2 & 0x3333333333333333u) | (x & 0x3333333333333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0f0f0f0f0fu) | (x & 0x0f0f0f0f0f0f0f0fu) << 4;
    x = (x >> 8 & 0x00ff00ff00ff00ffu) | (x & 0x00ff00ff00ff00ffu) << 8;
    x = (x >> 16 & 0x0000ffff0000ffffu) | (x & 0x0000ffff0000ffffu) << 16;
    return x >> 32 | x << 32;
}

/* The upper 63: those of the mirrored product, mirrored. */
static uint64_t multiply_high(uint64_t a, uint64_t b)
{
    return reverse(multiply_low(reverse(a), reverse(b))) >> 1;
}

static void product(uint8_t out[CC_BLOCK], const uint8_t key[CC_BLOCK], const uint8_t x[CC_BLOCK])
{
    uint64_t a0 = load64(x), a1 = load64(x + 8), b0 = load64(key), b1 = load64(key + 8);
    uint64_t low0 = multiply_low(a0, b0), low1 = multiply_high(a0, b0);
    uint64_t high0 = multiply_low(a1, b1), high1 = multiply_high(a1, b1);
    uint64_t cross0 = multiply_low(a0 ^ a1, b0 ^ b1) ^ low0 ^ high0; /* Karatsuba */
    uint64_t cross1 = multiply_high(a0 ^ a1, b0 ^ b1) ^ low1 ^ high1;
    uint64_t w0 = low0, w1 = low1 ^ cross0, w2 = high0 ^ cross1, w3 = high1;
    /* Divide by x^128: add the multiple of x^128 + x^127 + x^126 + x^121 + 1 that clears w0, then the one for w1. */
    w1 ^= w0 << 63 ^ w0 << 62 ^ w0 << 57;
    w2 ^= w0 ^ w0 >> 1 ^ w0 >> 2 ^ w0 >> 7;
    w2 ^= w1 << 63 ^ w1 << 62 ^ w1 << 57;
    w3 ^= w1 ^ w1 >> 1 ^ w1 >> 2 ^ w1 >> 7;
    store64(out, w2);
    store64(out + 8, w3);
}

static void prepare(uint8_t powers[CC_POWERS], const uint8_t key[CC_BLOCK])
{
    memset(powers, 0, CC_POWERS - CC_BLOCK); /* Horner's rule needs H alone */
    memcpy(powers + CC_POWERS - CC_BLOCK, key, CC_BLOCK);
}

static void absorb(uint8_t sum[CC_BLOCK], const uint8_t key[CC_BLOCK], const uint8_t block[CC_BLOCK],
                   void (*dot)(uint8_t *, const uint8_t *, const uint8_t *))
{
    for (int i = 0; i < CC_BLOCK; i++)
        sum[i] ^= block[i];
    dot(sum, key, sum);
}

static void tweak(uint8_t out[CC_BLOCK], const uint8_t powers[CC_POWERS], const uint8_t tag[CC_CGO_TAG],
                  uint8_t command, const uint8_t *rest)
{
    const uint8_t *key = powers + CC_POWERS - CC_BLOCK;
    uint8_t sum[CC_BLOCK] = {0}, block[CC_BLOCK];
    absorb(sum, key, tag, product);
    block[0] = command;
    memcpy(block + 1, rest, CC_BLOCK - 1);
    absorb(sum, key, block, product);
    for (int i = 2; i < CC_CGO_TWEAK_BLOCKS - 1; i++)
        absorb(sum, key, rest + CC_BLOCK * i - 17, product);
    memset(block, 0, CC_BLOCK);
    memcpy(block, rest + CC_CGO_REST - 14, 14);
    absorb(sum, key, block, product);
    memcpy(out, sum, CC_BLOCK);
}

static const cc_polyval cc_polyval_portable = {"portable", prepare, tweak, product};

void cc_polyval_hash(const cc_polyval *p, uint8_t out[CC_BLOCK], const uint8_t key[CC_BLOCK], const uint8_t *data,
                     size_t len)
{
    uint8_t sum[CC_BLOCK] = {0}, last[CC_BLOCK] = {0};
    for (; len >= CC_BLOCK; data += CC_BLOCK, len -= CC_BLOCK)
        absorb(sum, key, data, p->product);
    if (len > 0) {
        memcpy(last, data, len);
        absorb(sum, key, last, p->product);
    }
    memcpy(out, sum, CC_BLOCK);
}

#ifdef CC_X86
extern const cc_polyval cc_polyval_vpclmul, cc_polyval_pclmul;
#endif

const cc_polyval *const cc_polyvals[] = {
#ifdef CC_X86
    &cc_polyval_vpclmul,
    &cc_polyval_pclmul,
#endif
    &cc_polyval_portable,
    NULL,
};

static int has(const char *feature)
{
    const char *name;
    int present = 0;
    for (unsigned i = 0; (name = cc_cpu_feature(i, &present)) != NULL; i++)
        if (strcmp(name, feature) == 0)
            return present;
    return 0;
}

int cc_polyval_usable(const cc_polyval *p)
{
    if (p == &cc_polyval_portable)
        return 1;
    if (!has("pclmul") || !has("sse4.1"))
        return 0;
    return strcmp(p->name, "pclmul") == 0 || (has("vpclmul") && has("avx512f") && has("avx512bw") && has("avx512vl"));
}

const cc_polyval *cc_polyval_beside(const cc_kernel *k)
{
    const cc_polyval *const *p = cc_polyvals;
    if (k == &cc_portable)
        return &cc_polyval_portable;
    while (!cc_polyval_usable(*p))
        p++;
    return *p;
}
