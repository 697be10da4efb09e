/* What ctr.c, cpu.c and the kernels share beyond cellcrypt.h. */
#ifndef CELLCRYPT_KERNEL_H
#define CELLCRYPT_KERNEL_H

#include "cellcrypt.h"

#include <string.h>

/* At -O1 gcc 12 leaves states of AES on the stack, and takes up to 15 % longer (Ice Lake, December 2026). Sanitizers are left
 * as they are: with them it would compile for minutes. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#pragma GCC optimize("O3")
#endif

#define CC_INLINE static inline __attribute__((always_inline))

/* ctr.c never calls a kernel's xor_cells for payloads shorter than this: more than one head and one 64-octet vector, so
 * that the first vector of a payload is always whole and never its last one. */
#define CC_SHORTEST 80

/* Repeats statements for i = 0, 1, ... below n, a constant of at most EACH_MOST, and i is a constant every time. A loop would leave
 * it to the compiler whether arrays of vectors become registers, and gcc -O1 and clang mostly say no. */
#define EACH_MOST 16
#define EACH(i, n, ...)                                     \
    do {                                                    \
        EACH_4(i, n, 0, __VA_ARGS__)                        \
        EACH_4(i, n, 4, __VA_ARGS__)                        \
        EACH_4(i, n, 8, __VA_ARGS__)                        \
        EACH_4(i, n, 12, __VA_ARGS__)                       \
    } while (0)
#define EACH_4(i, n, at, ...)                               \
    EACH_1(i, n, at, __VA_ARGS__)                           \
    EACH_1(i, n, at + 1, __VA_ARGS__)                       \
    EACH_1(i, n, at + 2, __VA_ARGS__)                       \
    EACH_1(i, n, at + 3, __VA_ARGS__)
#define EACH_1(i, n, at, ...)                               \
    {                                                       \
        enum { i = at };                                    \
        if (i < (n)) {                                      \
            __VA_ARGS__                                     \
        }                                                   \
    }

#if defined(__x86_64__)
#define CC_X86 1
extern const cc_kernel cc_vaes512, cc_vaes256, cc_aesni;

/* The key schedule of the kernels with AES instructions: round keys as FIPS-197, section 5.2, numbers them. */
void cc_x86_expand(uint8_t round_keys[CC_ROUND_KEYS], const uint8_t *key, size_t key_len);
#endif

extern const cc_kernel cc_portable;

/* kernel->forget(), and registers that only other code uses. */
void cc_forget_registers(const cc_kernel *kernel);

/* The registers that every x86-64 processor has; a compiler uses them in plain C too. */
CC_INLINE void cc_clear_sse(void)
{
#ifdef CC_X86
#define CC_CLEAR(n) __asm__ volatile("pxor %%xmm" #n ", %%xmm" #n : : : "xmm" #n)
    CC_CLEAR(0); CC_CLEAR(1); CC_CLEAR(2); CC_CLEAR(3);
    CC_CLEAR(4); CC_CLEAR(5); CC_CLEAR(6); CC_CLEAR(7);
    CC_CLEAR(8); CC_CLEAR(9); CC_CLEAR(10); CC_CLEAR(11);
    CC_CLEAR(12); CC_CLEAR(13); CC_CLEAR(14); CC_CLEAR(15);
#undef CC_CLEAR
#endif
}

/* A uint64_t in little-endian and in big-endian order (SP 800-38A, appendix B.1, takes a counter block for a number in the
 * latter), wherever it lies. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define CC_LITTLE(x) (x)
#else
#define CC_LITTLE(x) __builtin_bswap64(x)
#endif

CC_INLINE uint64_t cc_get64_little(const uint8_t *from)
{
    uint64_t x;
    memcpy(&x, from, 8);
    return CC_LITTLE(x);
}

CC_INLINE void cc_put64_little(uint8_t *to, uint64_t x)
{
    x = CC_LITTLE(x);
    memcpy(to, &x, 8);
}

CC_INLINE uint64_t cc_get64(const uint8_t *from)
{
    return __builtin_bswap64(cc_get64_little(from));
}

CC_INLINE void cc_put64(uint8_t *to, uint64_t x)
{
    cc_put64_little(to, __builtin_bswap64(x));
}

#endif
