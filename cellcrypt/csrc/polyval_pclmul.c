/* POLYVAL with PCLMULQDQ: one product at a time, 32 of them added up before one reduction (see polyval_vpclmul.c). */
#include "cgo.h"
#include "kernel.h"

#ifdef CC_X86
#include <immintrin.h>

#define TARGET __attribute__((target("pclmul,sse4.1")))
#define LOCAL CC_INLINE TARGET

typedef struct {
    __m128i low, cross, high;
} wide;

LOCAL __m128i load(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

LOCAL void store(uint8_t *p, __m128i x)
{
    _mm_storeu_si128((__m128i *)(void *)p, x);
}

LOCAL wide multiply(__m128i a, __m128i b)
{
    wide w;
    w.low = _mm_clmulepi64_si128(a, b, 0x00);
    w.high = _mm_clmulepi64_si128(a, b, 0x11);
    w.cross = _mm_xor_si128(_mm_clmulepi64_si128(a, b, 0x01), _mm_clmulepi64_si128(a, b, 0x10));
    return w;
}

LOCAL wide add(wide a, wide b)
{
    return (wide){_mm_xor_si128(a.low, b.low), _mm_xor_si128(a.cross, b.cross), _mm_xor_si128(a.high, b.high)};
}

LOCAL __m128i reduce(wide w)
{
    const __m128i middle = _mm_set1_epi64x((long long)0xc200000000000000u);
    __m128i low = _mm_xor_si128(w.low, _mm_slli_si128(w.cross, 8));
    __m128i high = _mm_xor_si128(w.high, _mm_srli_si128(w.cross, 8));
    low = _mm_xor_si128(_mm_shuffle_epi32(low, 0x4e), _mm_clmulepi64_si128(low, middle, 0x00));
    low = _mm_xor_si128(_mm_shuffle_epi32(low, 0x4e), _mm_clmulepi64_si128(low, middle, 0x00));
    return _mm_xor_si128(low, high);
}

/* Powers by doubling, so that no product waits for more than five others. */
TARGET static void prepare(uint8_t powers[CC_POWERS], const uint8_t key[CC_BLOCK])
{
    uint8_t *last = powers + CC_POWERS; /* H^n is at last - 16 * n */
    store(last - CC_BLOCK, load(key));
    for (int have = 1; have < CC_CGO_TWEAK_BLOCKS; have *= 2) {
        __m128i highest = load(last - CC_BLOCK * have);
        for (int n = 1; n <= have; n++)
            store(last - CC_BLOCK * (have + n), reduce(multiply(load(last - CC_BLOCK * n), highest)));
    }
}

TARGET static void tweak(uint8_t out[CC_BLOCK], const uint8_t powers[CC_POWERS], const uint8_t tag[CC_CGO_TAG],
                         uint8_t command, const uint8_t *rest)
{
    wide sum = multiply(load(tag), load(powers));
    sum = add(sum, multiply(_mm_insert_epi8(load(rest - 1), command, 0), load(powers + CC_BLOCK)));
#pragma GCC unroll 4
    for (int i = 2; i < CC_CGO_TWEAK_BLOCKS - 1; i++)
        sum = add(sum, multiply(load(rest + CC_BLOCK * i - 17), load(powers + CC_BLOCK * i)));
    /* The last 14 octets, then two zeros. */
    sum = add(sum, multiply(_mm_srli_si128(load(rest + CC_CGO_REST - CC_BLOCK), 2), load(powers + CC_POWERS - CC_BLOCK)));
    store(out, reduce(sum));
}

TARGET static void product(uint8_t out[CC_BLOCK], const uint8_t key[CC_BLOCK], const uint8_t x[CC_BLOCK])
{
    store(out, reduce(multiply(load(x), load(key))));
}

const cc_polyval cc_polyval_pclmul = {"pclmul", prepare, tweak, product};

#endif
