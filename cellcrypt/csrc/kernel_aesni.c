/* The kernel for processors with AES instructions (AES-NI) and SSE4.1, one block in a vector: Westmere and later. Its key
 * schedule serves the wider kernels too. */
#include "kernel.h"

#ifdef CC_X86
#include <immintrin.h>

#define TARGET __attribute__((target("sse4.1,aes")))
#define LOCAL CC_INLINE TARGET
#define LANES 1
#define MASKED 0
#define TABLE_PAYS 1000
#define PREFETCH_PAYS (1 << 20)
#define PREFETCH_AHEAD 8192

typedef __m128i vec;

LOCAL vec load(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

LOCAL void store(uint8_t *p, vec v)
{
    _mm_storeu_si128((__m128i *)p, v);
}

LOCAL vec broadcast(const uint8_t *p)
{
    return load(p);
}

LOCAL vec broadcast64(uint64_t hi, uint64_t lo)
{
    return _mm_set_epi64x((long long)hi, (long long)lo);
}

LOCAL vec lanes(void)
{
    return _mm_setzero_si128();
}

LOCAL vec add64(vec a, vec b)
{
    return _mm_add_epi64(a, b);
}

LOCAL vec xor(vec a, vec b)
{
    return _mm_xor_si128(a, b);
}

LOCAL vec shuffle(vec v, vec order)
{
    return _mm_shuffle_epi8(v, order);
}

LOCAL vec enc(vec s, vec k)
{
    return _mm_aesenc_si128(s, k);
}

LOCAL vec enc_last(vec s, vec k)
{
    return _mm_aesenclast_si128(s, k);
}

/* A vector is one block. */
LOCAL void store_blocks(size_t n, uint8_t *p, vec v)
{
    (void)n;
    store(p, v);
}

/* This instruction set knows no upper halves. */
LOCAL void clear_uppers(void)
{
}

#include "x86_cells.h"

/* ---- the key schedule, FIPS-197, section 5.2 ---- */

/* Each word XORed with all words before it. */
LOCAL vec prefix_xor(vec k)
{
    k = _mm_xor_si128(k, _mm_slli_si128(k, 4));
    return _mm_xor_si128(k, _mm_slli_si128(k, 8));
}

/* SubWord of word `word` of k, rotated by one octet if `rotated`, plus rcon, in all four columns. Where the columns are the
 * same, ShiftRows changes nothing, so the last AES round is SubBytes and an addition; it takes a third of the time of
 * AESKEYGENASSIST. */
LOCAL vec sub_word(vec k, const int word, const int rotated, vec rcon)
{
    const int a = 4 * word + rotated, d = 4 * word + (3 + rotated) % 4;
    const int order = a | (a + 1) << 8 | (4 * word + (2 + rotated) % 4) << 16 | d << 24;
    return _mm_aesenclast_si128(_mm_shuffle_epi8(k, _mm_set1_epi32(order)), rcon);
}

TARGET static void expand128(uint8_t *to, const uint8_t *key)
{
    vec k = load(key), rcon = _mm_set1_epi32(1);
    store(to, k);
    for (int r = 1; r <= 10; r++) {
        k = xor(prefix_xor(k), sub_word(k, 3, 1, rcon));
        store(to + 16 * r, k);
        rcon = r == 8 ? _mm_set1_epi32(0x1b) : _mm_slli_epi32(rcon, 1);
    }
}

/* Six words at a time: four in `k`, two in the low half of `more`. */
TARGET static void expand192(uint8_t *to, const uint8_t *key)
{
    vec k = load(key), more = _mm_loadl_epi64((const __m128i *)(key + 16)), rcon = _mm_set1_epi32(1);
    store(to, k);
    _mm_storel_epi64((__m128i *)(to + 16), more);
    for (int i = 1; i <= 8; i++) {
        k = xor(prefix_xor(k), sub_word(more, 1, 1, rcon));
        more = xor(_mm_xor_si128(more, _mm_slli_si128(more, 4)), _mm_shuffle_epi32(k, 0xff));
        store(to + 24 * i, k);
        if (i < 8)
            _mm_storel_epi64((__m128i *)(to + 24 * i + 16), more);
        rcon = _mm_slli_epi32(rcon, 1);
    }
}

TARGET static void expand256(uint8_t *to, const uint8_t *key)
{
    vec even = load(key), odd = load(key + 16), rcon = _mm_set1_epi32(1);
    store(to, even);
    store(to + 16, odd);
    for (int i = 1; i <= 7; i++) {
        even = xor(prefix_xor(even), sub_word(odd, 3, 1, rcon));
        store(to + 32 * i, even);
        if (i == 7)
            break;
        odd = xor(prefix_xor(odd), sub_word(even, 3, 0, _mm_setzero_si128()));
        store(to + 32 * i + 16, odd);
        rcon = _mm_slli_epi32(rcon, 1);
    }
}

void cc_x86_expand(uint8_t round_keys[CC_ROUND_KEYS], const uint8_t *key, size_t key_len)
{
    if (key_len == 16)
        expand128(round_keys, key);
    else if (key_len == 24)
        expand192(round_keys, key);
    else
        expand256(round_keys, key);
}

static void forget(void)
{
    cc_clear_sse();
}

const cc_kernel cc_aesni = {"aesni", cc_x86_expand, keystream, xor_cells, xor_one, forget, aes_limit};
#endif
