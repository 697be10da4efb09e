/* How key stream meets payload: one octet, one uint32, or as much as the compiler can take at a time.
 *
 * Rules of this file: the byte and the word loop are compiled so that they stay loops over octets and over words, since
 * comparing them is the point. An empty asm that claims to read and write the value just made keeps each XOR an XOR of
 * that width under gcc and clang, at any -O and with -flto; no octet of memory is pinned by it, so nothing else slows.
 * Unaligned words are read and written by memcpy, which is defined at every address and costs one instruction.
 */
#include "cellcrypt.h"

#include <string.h>

typedef uint64_t wide __attribute__((vector_size(16)));

#define KEEP(value) __asm__("" : "+r"(value))

void cc_xor_bytes(uint8_t *out, const uint8_t *in, const uint8_t *keystream, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        uint8_t octet = in[i] ^ keystream[i];
        KEEP(octet);
        out[i] = octet;
    }
}

void cc_xor_words(uint8_t *out, const uint8_t *in, const uint8_t *keystream, size_t len)
{
    size_t i = 0;
    for (; i + 4 <= len; i += 4) {
        uint32_t word, stream;
        memcpy(&word, in + i, 4);
        memcpy(&stream, keystream + i, 4);
        word ^= stream;
        KEEP(word);
        memcpy(out + i, &word, 4);
    }
    cc_xor_bytes(out + i, in + i, keystream + i, len - i);
}

void cc_xor_wide(uint8_t *out, const uint8_t *in, const uint8_t *keystream, size_t len)
{
    size_t i = 0;
    for (; i + sizeof(wide) <= len; i += sizeof(wide)) {
        wide a, b; /* not arrays: compilers build those on the stack and leave key stream there */
        memcpy(&a, in + i, sizeof a);
        memcpy(&b, keystream + i, sizeof b);
        a ^= b;
        memcpy(out + i, &a, sizeof a);
    }
    for (; i < len; i++)
        out[i] = in[i] ^ keystream[i];
}
