/* POLYVAL with VPCLMULQDQ on 512-bit vectors: four products at a time.
 *
 * The hash of 32 blocks is the sum of X_i * H^(32-i), each product a `dot` (RFC 8452, section 3): so all 32 are
 * multiplied first, added up unreduced, and reduced once. Powers are stored in the order in which blocks meet them:
 * H^32 first, H^1 last.
 *
 * Intel Ice Lake at 2.6 GHz, 2026-11: see the figures in perf/.
 */
#include "cgo.h"
#include "kernel.h"

#ifdef CC_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,vpclmulqdq,pclmul,sse4.1")))
#define LOCAL CC_INLINE TARGET

/* The polynomial's middle, x^63 + x^62 + x^57, as it stands over x^64: x^128 + x^127 + x^126 + x^121 + 1. */
#define MIDDLE ((long long)0xc200000000000000u)

/* 256-bit products of four pairs, as low, crossed and high parts. */
typedef struct {
    __m512i low, cross, high;
} wide;

LOCAL wide multiply(__m512i a, __m512i b)
{
    wide w;
    w.low = _mm512_clmulepi64_epi128(a, b, 0x00);
    w.high = _mm512_clmulepi64_epi128(a, b, 0x11);
    w.cross = _mm512_xor_si512(_mm512_clmulepi64_epi128(a, b, 0x01), _mm512_clmulepi64_epi128(a, b, 0x10));
    return w;
}

LOCAL wide add(wide a, wide b)
{
    return (wide){_mm512_xor_si512(a.low, b.low), _mm512_xor_si512(a.cross, b.cross), _mm512_xor_si512(a.high, b.high)};
}

/* Divide by x^128 modulo the polynomial: twice 64 bits, each time by adding the multiple that clears the lowest word. */
LOCAL __m512i reduce4(wide w)
{
    const __m512i middle = _mm512_set1_epi64(MIDDLE);
    __m512i low = _mm512_xor_si512(w.low, _mm512_bslli_epi128(w.cross, 8));
    __m512i high = _mm512_xor_si512(w.high, _mm512_bsrli_epi128(w.cross, 8));
    low = _mm512_xor_si512(_mm512_shuffle_epi32(low, _MM_PERM_BADC), _mm512_clmulepi64_epi128(low, middle, 0x00));
    low = _mm512_xor_si512(_mm512_shuffle_epi32(low, _MM_PERM_BADC), _mm512_clmulepi64_epi128(low, middle, 0x00));
    return _mm512_xor_si512(low, high);
}

LOCAL __m128i reduce1(__m128i low, __m128i cross, __m128i high)
{
    const __m128i middle = _mm_set1_epi64x(MIDDLE);
    low = _mm_xor_si128(low, _mm_slli_si128(cross, 8));
    high = _mm_xor_si128(high, _mm_srli_si128(cross, 8));
    low = _mm_xor_si128(_mm_shuffle_epi32(low, 0x4e), _mm_clmulepi64_si128(low, middle, 0x00));
    low = _mm_xor_si128(_mm_shuffle_epi32(low, 0x4e), _mm_clmulepi64_si128(low, middle, 0x00));
    return _mm_xor_si128(low, high);
}

LOCAL __m128i dot1(__m128i a, __m128i b)
{
    return reduce1(_mm_clmulepi64_si128(a, b, 0x00),
                   _mm_xor_si128(_mm_clmulepi64_si128(a, b, 0x01), _mm_clmulepi64_si128(a, b, 0x10)),
                   _mm_clmulepi64_si128(a, b, 0x11));
}

/* The four lanes' sum. */
LOCAL __m128i fold(__m512i v)
{
    __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
    return _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

LOCAL __m512i every(__m128i x)
{
    return _mm512_broadcast_i32x4(x);
}

TARGET static void prepare(uint8_t powers[CC_POWERS], const uint8_t key[CC_BLOCK])
{
    __m512i *out = (__m512i *)(void *)powers;
    __m128i h1 = _mm_loadu_si128((const __m128i *)(const void *)key);
    __m128i h2 = dot1(h1, h1);
    __m512i pair = _mm512_inserti32x4(_mm512_castsi128_si512(h2), h1, 1); /* H^2, H^1 */
    __m512i next = reduce4(multiply(pair, every(h2)));                    /* H^4, H^3 */
    __m512i p1 = _mm512_inserti64x4(next, _mm512_castsi512_si256(pair), 1);
    __m512i h4 = every(_mm512_castsi512_si128(p1));
    __m512i p5 = reduce4(multiply(p1, h4));
    __m512i h8 = every(_mm512_castsi512_si128(p5));
    __m512i p9 = reduce4(multiply(p1, h8));
    __m512i p13 = reduce4(multiply(p5, h8));
    __m512i h16 = every(_mm512_castsi512_si128(p13));
    _mm512_storeu_si512(out + 7, p1);
    _mm512_storeu_si512(out + 6, p5);
    _mm512_storeu_si512(out + 5, p9);
    _mm512_storeu_si512(out + 4, p13);
    _mm512_storeu_si512(out + 3, reduce4(multiply(p1, h16)));
    _mm512_storeu_si512(out + 2, reduce4(multiply(p5, h16)));
    _mm512_storeu_si512(out + 1, reduce4(multiply(p9, h16)));
    _mm512_storeu_si512(out + 0, reduce4(multiply(p13, h16)));
}

/* Block 0 is the tag; block 1 the command and the first 15 octets of `rest`; block i then begins at rest + 16 * i - 17.
 * The octet before `rest` is the payload's own (the last of its tag), so a load may begin there. */
TARGET static void tweak(uint8_t out[CC_BLOCK], const uint8_t powers[CC_POWERS], const uint8_t tag[CC_CGO_TAG],
                         uint8_t command, const uint8_t *rest)
{
    const __m512i *h = (const __m512i *)(const void *)powers;
    __m128i block0 = _mm_loadu_si128((const __m128i *)(const void *)tag);
    __m128i block1 = _mm_insert_epi8(_mm_loadu_si128((const __m128i *)(const void *)(rest - 1)), command, 0);
    __m256i blocks2 = _mm256_loadu_si256((const __m256i *)(const void *)(rest + 15));
    __m512i x = _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm256_inserti128_si256(_mm256_castsi128_si256(block0), block1, 1)), blocks2, 1);
    wide sum = multiply(x, _mm512_loadu_si512(h));
#pragma GCC unroll 6
    for (int i = 1; i < 7; i++)
        sum = add(sum, multiply(_mm512_loadu_si512(rest + 64 * i - 17), _mm512_loadu_si512(h + i)));
    x = _mm512_maskz_loadu_epi8(~(uint64_t)0 >> 2, rest + 64 * 7 - 17); /* 62 octets are left */
    sum = add(sum, multiply(x, _mm512_loadu_si512(h + 7)));
    _mm_storeu_si128((__m128i *)(void *)out, reduce1(fold(sum.low), fold(sum.cross), fold(sum.high)));
}

TARGET static void product(uint8_t out[CC_BLOCK], const uint8_t key[CC_BLOCK], const uint8_t x[CC_BLOCK])
{
    _mm_storeu_si128((__m128i *)(void *)out, dot1(_mm_loadu_si128((const __m128i *)(const void *)x),
                                                  _mm_loadu_si128((const __m128i *)(const void *)key)));
}

const cc_polyval cc_polyval_vpclmul = {"vpclmul", prepare, tweak, product};

#endif
