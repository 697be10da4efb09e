/* The kernel for processors with VAES and AVX2 but without AVX-512: two blocks in a vector. Zen 3, Alder Lake and later. */
#include "kernel.h"

#ifdef CC_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,aes,vaes")))
#define LOCAL CC_INLINE TARGET
#define LANES 2
#define MASKED 0
#define TABLE_PAYS 1000
#define PREFETCH_PAYS (1 << 20)
#define PREFETCH_AHEAD 8192

typedef __m256i vec;

LOCAL vec load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

LOCAL void store(uint8_t *p, vec v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}

LOCAL vec broadcast(const uint8_t *p)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
}

LOCAL vec broadcast64(uint64_t hi, uint64_t lo)
{
    return _mm256_broadcastsi128_si256(_mm_set_epi64x((long long)hi, (long long)lo));
}

LOCAL vec lanes(void)
{
    return _mm256_setr_epi64x(0, 0, 1, 0);
}

LOCAL vec add64(vec a, vec b)
{
    return _mm256_add_epi64(a, b);
}

LOCAL vec xor(vec a, vec b)
{
    return _mm256_xor_si256(a, b);
}

LOCAL vec shuffle(vec v, vec order)
{
    return _mm256_shuffle_epi8(v, order);
}

LOCAL vec enc(vec s, vec k)
{
    return _mm256_aesenc_epi128(s, k);
}

LOCAL vec enc_last(vec s, vec k)
{
    return _mm256_aesenclast_epi128(s, k);
}

/* The first block, or both where n is more than 1. */
LOCAL void store_blocks(size_t n, uint8_t *p, vec v)
{
    if (n > 1)
        store(p, v);
    else
        _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(v));
}

LOCAL __m128i lower_half(vec v)
{
    return _mm256_castsi256_si128(v);
}

LOCAL __m128i upper_half(vec v)
{
    return _mm256_extracti128_si256(v, 1);
}

/* The last two of four blocks if `both` (1), else (0) the middle two. */
LOCAL vec last_two(vec a, vec b, unsigned both)
{
    return _mm256_blendv_epi8(_mm256_permute2x128_si256(a, b, 0x21), b, _mm256_set1_epi32(-(int)both));
}

/* Upper halves of registers that are left dirty slow down SSE code that follows, by half. Compilers clear them at -O2. */
LOCAL void clear_uppers(void)
{
    _mm256_zeroupper();
}

#include "x86_cells.h"

TARGET static void forget(void)
{
    _mm256_zeroall();
}

const cc_kernel cc_vaes256 = {"vaes256", cc_x86_expand, keystream, xor_cells, xor_one, forget, aes_limit};
#endif
