/* Which kernels this processor and its operating system run.
 *
 * Rules
 *   - Asked once per process or so, hence nothing is remembered here, but for what every cipher's end asks.
 *   - A kernel is usable only if every instruction set of its TARGET attribute is there, and if the operating system saves
 *     the registers that they use (Intel SDM, volume 1, section 13.3; AMD APM, volume 2, section 11.5).
 *
 * Another architecture's kernel (ARMv8 with its AES extension, say) would be kernel_armv8.c beside the others, with its
 * instruction set switched on by function attributes, its name in front of "portable" in cc_kernels, and its question to
 * the operating system (getauxval, sysctl) in a branch of `look` below. */
#include "kernel.h"

const cc_kernel *const cc_kernels[] = {
#ifdef CC_X86
    &cc_vaes512,
    &cc_vaes256,
    &cc_aesni,
#endif
    &cc_portable,
    NULL,
};

/* Features in the order in which `info` shows them. */
#ifdef CC_X86
#include <cpuid.h>

enum { SSSE3, SSE41, AES, PCLMUL, AVX2, BMI2, VAES, VPCLMUL, GFNI, SHA, AVX512F, AVX512BW, AVX512VL, AVX512VBMI, FEATURES };

enum { EAX, EBX, ECX, EDX };

/* Where cpuid shows a feature, and which state the operating system must save for it (bits of XCR0). */
#define SSE_STATE 0x00u
#define AVX_STATE 0x06u
#define AVX512_STATE 0xe6u

static const struct {
    const char *name;
    unsigned leaf, reg, bit, state;
} features[FEATURES] = {
    [SSSE3] = {"ssse3", 1, ECX, 9, SSE_STATE},
    [SSE41] = {"sse4.1", 1, ECX, 19, SSE_STATE},
    [AES] = {"aes", 1, ECX, 25, SSE_STATE},
    [PCLMUL] = {"pclmul", 1, ECX, 1, SSE_STATE},
    [AVX2] = {"avx2", 7, EBX, 5, AVX_STATE},
    [BMI2] = {"bmi2", 7, EBX, 8, SSE_STATE},
    [VAES] = {"vaes", 7, ECX, 9, AVX_STATE},
    [VPCLMUL] = {"vpclmul", 7, ECX, 10, AVX_STATE},
    [GFNI] = {"gfni", 7, ECX, 8, SSE_STATE},
    [SHA] = {"sha", 7, EBX, 29, SSE_STATE},
    [AVX512F] = {"avx512f", 7, EBX, 16, AVX512_STATE},
    [AVX512BW] = {"avx512bw", 7, EBX, 30, AVX512_STATE},
    [AVX512VL] = {"avx512vl", 7, EBX, 31, AVX512_STATE},
    [AVX512VBMI] = {"avx512vbmi", 7, ECX, 1, AVX512_STATE},
};

#define BIT(f) (1u << (f))

/* XCR0: what the operating system saves. Only to be asked where cpuid says OSXSAVE. */
static unsigned saved_state(void)
{
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static unsigned look(void)
{
    unsigned one[4] = {0}, seven[4] = {0}, found = 0, saved = 0;
    if (__get_cpuid(1, &one[EAX], &one[EBX], &one[ECX], &one[EDX]) && one[ECX] >> 27 & 1)
        saved = saved_state();
    (void)__get_cpuid_count(7, 0, &seven[EAX], &seven[EBX], &seven[ECX], &seven[EDX]);
    for (unsigned f = 0; f < FEATURES; f++) {
        const unsigned *regs = features[f].leaf == 1 ? one : seven;
        if (regs[features[f].reg] >> features[f].bit & 1 && (saved & features[f].state) == features[f].state)
            found |= BIT(f);
    }
    return found;
}

static unsigned needs(const cc_kernel *k)
{
    if (k == &cc_vaes512)
        return BIT(AES) | BIT(VAES) | BIT(BMI2) | BIT(AVX512F) | BIT(AVX512BW) | BIT(AVX512VL) | BIT(AVX512VBMI) | BIT(SSE41);
    if (k == &cc_vaes256)
        return BIT(AES) | BIT(VAES) | BIT(AVX2) | BIT(SSE41);
    if (k == &cc_aesni)
        return BIT(AES) | BIT(SSE41) | BIT(SSSE3);
    return 0;
}

/* With AVX-512 the C library copies through registers 16 to 31, which none but the widest kernel clears. */
void cc_forget_registers(const cc_kernel *kernel)
{
    static int there; /* 0: not asked yet; the same for every thread, so a race writes the same value */
    if (!there)
        there = look() & BIT(AVX512F) ? 1 : -1;
    (there > 0 ? &cc_vaes512 : kernel)->forget();
}

const char *cc_cpu_feature(unsigned index, int *present)
{
    if (index >= FEATURES)
        return NULL;
    *present = (int)(look() >> index & 1);
    return features[index].name;
}

#else

static unsigned look(void)
{
    return 0;
}

static unsigned needs(const cc_kernel *k)
{
    (void)k;
    return 0;
}

void cc_forget_registers(const cc_kernel *kernel)
{
    kernel->forget();
}

const char *cc_cpu_feature(unsigned index, int *present)
{
    (void)index;
    (void)present;
    return NULL;
}

#endif

int cc_kernel_usable(const cc_kernel *k)
{
    return !(needs(k) & ~look());
}

uint64_t cc_aes_limit(const cc_kernel *k, const uint8_t *round_keys, unsigned rounds, size_t blocks)
{
    return k->aes_limit(round_keys, rounds, blocks);
}

/* Register to register: some processors (Golden Cove among them) fold additions of a constant at renaming, in no time. */
uint64_t cc_dependent_adds(uint64_t count)
{
    uint64_t sum = 0, one = 1;
    __asm__("" : "+r"(one));
    for (; count >= 16; count -= 16) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            sum += one;
            __asm__("" : "+r"(sum));
        }
    }
    return sum;
}
