/* What ctr.c, cpu.c and the kernels share beyond cellcrypt.h. */
#ifndef CELLCRYPT_KERNEL_H
#define CELLCRYPT_KERNEL_H

#include "cellcrypt.h"

#include <string.h>

#define CC_INLINE static inline __attribute__((always_inline))

/* ctr.c never calls a kernel's xor_cells for payloads shorter than this: more than one head and one 64-octet vector, so
 * that the first vector of a payload is always whole and never its last one. */
#define CC_SHORTEST 80

#if defined(__x86_64__)
#define CC_X86 1
extern const cc_kernel cc_vaes512, cc_vaes256, cc_aesni;

/* The key schedule of the kernels with AES instructions: round keys as FIPS-197, section 5.2, numbers them. */
void cc_x86_expand(uint8_t round_keys[CC_ROUND_KEYS], const uint8_t *key, size_t key_len);
#endif

extern const cc_kernel cc_portable;

/* A uint64_t in big-endian order (SP 800-38A, appendix B.1, takes the counter block for such a number). */
CC_INLINE void cc_put64(uint8_t *to, uint64_t x)
{
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(x >> (56 - 8 * i));
}

CC_INLINE uint64_t cc_get64(const uint8_t *from)
{
    uint64_t x = 0;
    for (int i = 0; i < 8; i++)
        x = x << 8 | from[i];
    return x;
}

#endif
