/* The kernel for processors with VAES and AVX-512: four blocks in a vector, and masks, so that heads and tails are stored
 * without touching a neighbour. Ice Lake and later, Zen 4 and later: all of them have AVX512_VBMI as well. */
#include "kernel.h"

#ifdef CC_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,aes,vaes,bmi2")))
#define LOCAL CC_INLINE TARGET
#define LANES 4
#define MASKED 1
#define TABLE_PAYS 1000
#define PREFETCH_PAYS (1 << 20)
#define PREFETCH_AHEAD 8192

typedef __m512i vec;

LOCAL vec load(const uint8_t *p)
{
    return _mm512_loadu_si512(p);
}

LOCAL void store(uint8_t *p, vec v)
{
    _mm512_storeu_si512(p, v);
}

LOCAL vec broadcast(const uint8_t *p)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p));
}

LOCAL vec broadcast64(uint64_t hi, uint64_t lo)
{
    return _mm512_broadcast_i32x4(_mm_set_epi64x((long long)hi, (long long)lo));
}

LOCAL vec lanes(void)
{
    return _mm512_setr_epi64(0, 0, 1, 0, 2, 0, 3, 0);
}

LOCAL vec add64(vec a, vec b)
{
    return _mm512_add_epi64(a, b);
}

LOCAL vec xor(vec a, vec b)
{
    return _mm512_xor_si512(a, b);
}

LOCAL vec shuffle(vec v, vec order)
{
    return _mm512_shuffle_epi8(v, order);
}

LOCAL vec enc(vec s, vec k)
{
    return _mm512_aesenc_epi128(s, k);
}

LOCAL vec enc_last(vec s, vec k)
{
    return _mm512_aesenclast_epi128(s, k);
}

/* The first n octets, 1 to 64. */
LOCAL __mmask64 first_octets(size_t n)
{
    return ~(uint64_t)0 >> (64 - n);
}

LOCAL vec load_first(size_t n, const uint8_t *p)
{
    return _mm512_maskz_loadu_epi8(first_octets(n), p);
}

LOCAL void store_first(size_t n, uint8_t *p, vec v)
{
    _mm512_mask_storeu_epi8(p, first_octets(n), v);
}

/* All but the first n octets, which stay as they are and are not looked at. */
LOCAL vec load_rest(size_t n, const uint8_t *p)
{
    return _mm512_maskz_loadu_epi8(~first_octets(n), p);
}

LOCAL void store_rest(size_t n, uint8_t *p, vec v)
{
    _mm512_mask_storeu_epi8(p, ~first_octets(n), v);
}

/* The first n blocks, or all where n is more than 4. */
LOCAL void store_blocks(size_t n, uint8_t *p, vec v)
{
    store_first(n < LANES ? 16 * n : 64, p, v);
}

/* The same within one block, n from 0 to 15. */
LOCAL __m128i load_first16(size_t n, const uint8_t *p)
{
    return _mm_maskz_loadu_epi8((__mmask16)((1u << n) - 1), p);
}

LOCAL void store_first16(size_t n, uint8_t *p, __m128i v)
{
    _mm_mask_storeu_epi8(p, (__mmask16)((1u << n) - 1), v);
}

/* 0, 1, 2, ...: as many as a vector has octets, and a block more. */
static const uint8_t count_up[64 + 16] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26,
    27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53,
    54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79,
};

/* n octets of v from number `at` on. */
LOCAL __m128i rest16(size_t n, vec v, size_t at)
{
    vec order = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(count_up + at)));
    return _mm512_castsi512_si128(_mm512_maskz_permutexvar_epi8((1u << n) - 1, order, v));
}

/* Upper halves of registers that are left dirty slow down SSE code that follows, by half. Compilers clear them at -O2. */
LOCAL void clear_uppers(void)
{
    _mm256_zeroupper();
}

#include "x86_cells.h"

/* vzeroall leaves registers 16 to 31 alone. Serves every processor with AVX-512F: see cc_forget_registers. */
TARGET static void forget(void)
{
#define CLEAR(n) __asm__ volatile("vpxord %%zmm" #n ", %%zmm" #n ", %%zmm" #n : : : "xmm" #n)
    CLEAR(16); CLEAR(17); CLEAR(18); CLEAR(19); CLEAR(20); CLEAR(21); CLEAR(22); CLEAR(23);
    CLEAR(24); CLEAR(25); CLEAR(26); CLEAR(27); CLEAR(28); CLEAR(29); CLEAR(30); CLEAR(31);
#undef CLEAR
    _mm256_zeroall();
}

const cc_kernel cc_vaes512 = {"vaes512", cc_x86_expand, keystream, xor_cells, xor_one, forget, aes_limit};
#endif
