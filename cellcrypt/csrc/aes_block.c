/* One AES block at a time: ET needs the cipher at relays and its inverse (FIPS-197, section 5.3) at clients.
 *
 * Two of them. AES-NI: a kernel's key stream of one block would do, but takes 40 ns more than these rounds (Ice Lake, 2.6 GHz,
 * 2026-11). And a portable one, whose inverse holds a block as eight planes of sixteen bits: plane b has bit b of every
 * octet, so the S-box is arithmetic on planes (x^254 in GF(2^8), and an affine map) and nothing is looked up. It is slow,
 * but one block a cell is all that is asked of it. */
#include "cgo.h"
#include "kernel.h"

/* ---- portable ---- */

typedef struct {
    uint32_t plane[8];
} planes; /* bit i of a plane belongs to octet i: row i % 4, column i / 4 (FIPS-197, section 3.4) */

static planes to_planes(const uint8_t octets[CC_BLOCK])
{
    planes s = {{0}};
    for (int i = 0; i < CC_BLOCK; i++)
        for (int b = 0; b < 8; b++)
            s.plane[b] |= (uint32_t)(octets[i] >> b & 1) << i;
    return s;
}

static void from_planes(uint8_t octets[CC_BLOCK], planes s)
{
    memset(octets, 0, CC_BLOCK);
    for (int i = 0; i < CC_BLOCK; i++)
        for (int b = 0; b < 8; b++)
            octets[i] |= (uint8_t)((s.plane[b] >> i & 1) << b);
}

static planes add(planes a, planes b)
{
    for (int i = 0; i < 8; i++)
        a.plane[i] ^= b.plane[i];
    return a;
}

/* x^8 = x^4 + x^3 + x + 1 (FIPS-197, section 4.2). */
static planes multiply(planes a, planes b)
{
    uint32_t wide[15] = {0};
    planes out;
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            wide[i + j] ^= a.plane[i] & b.plane[j];
    for (int i = 14; i >= 8; i--) {
        wide[i - 4] ^= wide[i];
        wide[i - 5] ^= wide[i];
        wide[i - 7] ^= wide[i];
        wide[i - 8] ^= wide[i];
    }
    memcpy(out.plane, wide, sizeof out.plane);
    return out;
}

static planes square(planes a, int times)
{
    while (times-- > 0)
        a = multiply(a, a);
    return a;
}

/* x^254, which is 1/x, and 0 for 0. */
static planes invert(planes x)
{
    planes x3 = multiply(square(x, 1), x);
    planes x12 = square(x3, 2);
    planes x15 = multiply(x12, x3);
    planes x252 = multiply(square(x15, 4), x12);
    return multiply(x252, square(x, 1));
}

/* InvSubBytes: the S-box's affine map undone, whose bit i is the sum of bits i+2, i+5, i+7, and 05 added; then 1/x. */
static planes inverse_sub_bytes(planes x)
{
    planes y;
    for (int i = 0; i < 8; i++)
        y.plane[i] = x.plane[(i + 2) & 7] ^ x.plane[(i + 5) & 7] ^ x.plane[(i + 7) & 7] ^ (0u - (0x05u >> i & 1u));
    return invert(y);
}

/* Row r moves r columns to the right. */
static planes inverse_shift_rows(planes x)
{
    for (int b = 0; b < 8; b++) {
        uint32_t p = x.plane[b], out = p & 0x1111u;
        for (int r = 1; r < 4; r++) {
            uint32_t row = p & 0x1111u << r;
            out |= (row << 4 * r | row >> (16 - 4 * r)) & 0xffffu;
        }
        x.plane[b] = out;
    }
    return x;
}

/* Every column turned up by n rows. */
static planes turn(planes x, int n)
{
    const uint32_t low = 0xfu >> n, high = 0xfu & ~low;
    for (int b = 0; b < 8; b++)
        x.plane[b] = (x.plane[b] >> n & low * 0x1111u) | (x.plane[b] << (4 - n) & high * 0x1111u);
    return x;
}

static planes twice(planes x)
{
    const uint32_t top = x.plane[7];
    planes out = {{top, x.plane[0] ^ top, x.plane[1], x.plane[2] ^ top, x.plane[3] ^ top, x.plane[4], x.plane[5],
                   x.plane[6]}};
    return out;
}

/* 0e 0b 0d 09 is 02 03 01 01 after adding four times x and x two rows up. */
static planes inverse_mix_columns(planes x)
{
    x = add(x, twice(twice(add(x, turn(x, 2)))));
    planes up = turn(x, 1);
    return add(add(twice(add(x, up)), up), add(turn(x, 2), turn(x, 3)));
}

static planes round_key(const uint8_t *round_keys, unsigned r)
{
    return to_planes(round_keys + CC_BLOCK * r);
}

static void decrypt_portable(const uint8_t *round_keys, unsigned rounds, uint8_t out[CC_BLOCK], const uint8_t in[CC_BLOCK])
{
    planes s = add(to_planes(in), round_key(round_keys, rounds));
    for (unsigned r = rounds - 1; r > 0; r--)
        s = inverse_mix_columns(add(inverse_sub_bytes(inverse_shift_rows(s)), round_key(round_keys, r)));
    from_planes(out, add(inverse_sub_bytes(inverse_shift_rows(s)), round_key(round_keys, 0)));
}

/* Counter mode at the block itself. */
static void encrypt_portable(const uint8_t *round_keys, unsigned rounds, uint8_t out[CC_BLOCK], const uint8_t in[CC_BLOCK])
{
    cc_portable.keystream(round_keys, rounds, (cc_counter){.lo = cc_get64(in + 8), .hi = cc_get64(in)}, out, 1);
}

static void keep_portable(uint8_t *round_keys, unsigned rounds)
{
    (void)round_keys;
    (void)rounds;
}

static const cc_block portable = {"portable", keep_portable, encrypt_portable, decrypt_portable};

/* ---- AES-NI ---- */

#ifdef CC_X86
#include <immintrin.h>

#define TARGET __attribute__((target("aes,sse4.1")))

/* Into those of the equivalent inverse cipher (FIPS-197, section 5.3.5). */
TARGET static void turn_aesni(uint8_t *round_keys, unsigned rounds)
{
    for (unsigned r = 1; r < rounds; r++) {
        __m128i *k = (__m128i *)(void *)(round_keys + CC_BLOCK * r);
        _mm_storeu_si128(k, _mm_aesimc_si128(_mm_loadu_si128(k)));
    }
}

TARGET static void encrypt_aesni(const uint8_t *round_keys, unsigned rounds, uint8_t out[CC_BLOCK], const uint8_t in[CC_BLOCK])
{
    const __m128i *k = (const __m128i *)(const void *)round_keys;
    __m128i s = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)in), _mm_loadu_si128(k));
    for (unsigned r = 1; r < rounds; r++)
        s = _mm_aesenc_si128(s, _mm_loadu_si128(k + r));
    s = _mm_aesenclast_si128(s, _mm_loadu_si128(k + rounds));
    _mm_storeu_si128((__m128i *)(void *)out, s);
}

TARGET static void decrypt_aesni(const uint8_t *round_keys, unsigned rounds, uint8_t out[CC_BLOCK], const uint8_t in[CC_BLOCK])
{
    const __m128i *k = (const __m128i *)(const void *)round_keys;
    __m128i s = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)in), _mm_loadu_si128(k + rounds));
    for (unsigned r = rounds - 1; r > 0; r--)
        s = _mm_aesdec_si128(s, _mm_loadu_si128(k + r));
    s = _mm_aesdeclast_si128(s, _mm_loadu_si128(k));
    _mm_storeu_si128((__m128i *)(void *)out, s);
}

static const cc_block aesni = {"aesni", turn_aesni, encrypt_aesni, decrypt_aesni};

#endif

const cc_block *cc_block_beside(const cc_kernel *k)
{
#ifdef CC_X86
    if (k != &cc_portable) /* every other kernel runs AES-NI */
        return &aesni;
#endif
    (void)k;
    return &portable;
}
