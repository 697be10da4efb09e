/* Checks the C core, without Python, against AES written here as FIPS-197 reads: slow and obvious.
 *
 * Every kernel that this processor runs x every key length:
 *   lengths     1..70 blocks x 16 octets of lead x starts around 2^32, 2^64, 2^96 and 2^128, in place and into
 *   cells       strided batches, short and long enough for the kernels' tables; headers and neighbours intact
 *   pages       payloads of 1..600 octets between protected pages
 *   ends        position, seek and the end of the key stream
 *   stacks      no round key and no key stream is left where the calls had their stack; some lengths only if `quick`
 * A failure says which and ends the program with status 1. Usage: test_kernels [kernel name or all [full or quick]]; `full`
 * takes every distance from 0 to 72 blocks before each of those starts instead of some, `quick` only 0. */
#define _GNU_SOURCE
#include "cellcrypt.h"
#include "check.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- FIPS-197 ---- */

static uint8_t sbox[256];

static uint8_t times(uint8_t a, uint8_t b)
{
    unsigned product = 0;
    for (int i = 7; i >= 0; i--) {
        product = product << 1 ^ (product >> 7) * 0x11b;
        if (b >> i & 1)
            product ^= a;
    }
    return (uint8_t)product;
}

static void make_sbox(void)
{
    for (int x = 0; x < 256; x++) {
        uint8_t inverse = 0;
        for (int y = 1; y < 256; y++)
            if (times((uint8_t)x, (uint8_t)y) == 1)
                inverse = (uint8_t)y;
        unsigned twice = inverse * 0x101u;
        sbox[x] = (uint8_t)(twice ^ twice >> 4 ^ twice >> 5 ^ twice >> 6 ^ twice >> 7 ^ 0x63);
    }
}

typedef struct {
    uint8_t keys[15][16];
    int rounds;
} slow_aes;

static void slow_expand(slow_aes *a, const uint8_t *key, int key_len)
{
    uint8_t *w = a->keys[0], rcon = 1;
    a->rounds = key_len / 4 + 6;
    memcpy(w, key, (size_t)key_len);
    for (int i = key_len / 4; i < 4 * (a->rounds + 1); i++) {
        uint8_t t[4];
        memcpy(t, w + 4 * i - 4, 4);
        if (i % (key_len / 4) == 0) {
            uint8_t first = t[0];
            t[0] = sbox[t[1]] ^ rcon;
            t[1] = sbox[t[2]];
            t[2] = sbox[t[3]];
            t[3] = sbox[first];
            rcon = times(rcon, 2);
        } else if (key_len == 32 && i % 8 == 4)
            for (int j = 0; j < 4; j++)
                t[j] = sbox[t[j]];
        for (int j = 0; j < 4; j++)
            w[4 * i + j] = w[4 * i + j - key_len] ^ t[j];
    }
}

static void slow_encrypt(const slow_aes *a, uint8_t block[16])
{
    uint8_t s[16], t[16];
    for (int i = 0; i < 16; i++)
        s[i] = block[i] ^ a->keys[0][i];
    for (int r = 1; r <= a->rounds; r++) {
        for (int i = 0; i < 16; i++)
            t[i] = sbox[s[(i + 4 * (i % 4)) % 16]]; /* SubBytes, ShiftRows */
        for (int i = 0; i < 16; i++) {
            const uint8_t *column = t + i / 4 * 4;
            s[i] = r == a->rounds ? t[i]
                                  : times(column[i % 4], 2) ^ times(column[(i + 1) % 4], 3) ^ column[(i + 2) % 4] ^ column[(i + 3) % 4];
            s[i] ^= a->keys[r][i];
        }
    }
    memcpy(block, s, 16);
}

/* blocks of key stream from the 16 octets at `counter` on, a big-endian number which wraps. */
static void slow_keystream(const slow_aes *a, const uint8_t counter[16], uint8_t *out, size_t blocks)
{
    uint8_t c[16];
    memcpy(c, counter, 16);
    for (size_t b = 0; b < blocks; b++) {
        memcpy(out + 16 * b, c, 16);
        slow_encrypt(a, out + 16 * b);
        for (int i = 15; i >= 0 && ++c[i] == 0; i--)
            ;
    }
}

/* ---- helpers ---- */

/* 2^exponent - before, modulo 2^128, big-endian. */
static void counter_near(uint8_t c[16], int exponent, unsigned before)
{
    memset(c, 0, 16);
    if (exponent < 128)
        c[15 - exponent / 8] = (uint8_t)(1 << exponent % 8);
    for (; before; before--)
        for (int i = 15; i >= 0 && c[i]-- == 0; i--)
            ;
}

static cc_stream *new_stream(void)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, sizeof(cc_stream)))
        exit(2);
    return p;
}

static const int key_lens[] = {16, 24, 32};
static const int exponents[] = {16, 32, 40, 64, 96, 128};

/* ---- the checks ---- */

static void known_answer(void)
{
    /* FIPS-197, appendix C.1 to C.3 */
    static const char *ends[] = {"69c4e0d86a7b0430d8cdb78070b4c55a", "dda97ca4864cdfe06eaf70a0ec0d7191",
                                 "8ea2b7ca516745bfeafc49904b496089"};
    for (int k = 0; k < 3; k++) {
        slow_aes a;
        uint8_t key[32], block[16];
        char hex[33];
        for (int i = 0; i < 32; i++)
            key[i] = (uint8_t)i;
        for (int i = 0; i < 16; i++)
            block[i] = (uint8_t)(i * 0x11);
        slow_expand(&a, key, key_lens[k]);
        slow_encrypt(&a, block);
        for (int i = 0; i < 16; i++)
            sprintf(hex + 2 * i, "%02x", block[i]);
        CHECK(!strcmp(hex, ends[k]), "%s", hex);
    }
}

enum { MOST = 70, EDGE = 40 };

static void check_lengths(const cc_kernel *kernel, cc_stream *s, int key_len, int exponent, unsigned before)
{
    static const size_t extras[] = {0, 1, 13, 15};
    uint8_t key[32], iv[16], want[16 * (MOST + 3)], text[16 * (MOST + 2)], in[16 * (MOST + 4)], out[16 * (MOST + 4)];
    slow_aes a;
    fill(key, 32);
    fill(text, sizeof text);
    counter_near(iv, exponent, before);
    slow_expand(&a, key, key_len);
    slow_keystream(&a, iv, want, MOST + 3);
    for (size_t blocks = 1; blocks <= MOST; blocks++)
        for (size_t lead = 0; lead < 16; lead++) {
            size_t len = 16 * blocks + extras[(blocks + lead) % 4], edge = (blocks + lead) % EDGE;
            for (int into = 0; into < 2; into++) {
                memset(in, 0xa5, sizeof in);
                memset(out, 0xa5, sizeof out);
                memcpy(in + edge, text, len);
                uint8_t *target = into ? out : in;
                cc_stream_init(s, kernel, key, (size_t)key_len, iv);
                if (lead)
                    cc_xor_cells(s, text, out, lead, lead, 1);
                memset(out, 0xa5, sizeof out);
                cc_xor_cells(s, in + edge, target + edge, len, len, 1);
                for (size_t i = 0; i < sizeof out; i++) {
                    size_t at = i - edge;
                    int inside = i >= edge && at < len;
                    CHECK(target[i] == (inside ? text[at] ^ want[lead + at] : 0xa5),
                          "AES-%d, 2^%d - %u, lead %zu, length %zu, octet %zd, into %d", key_len * 8, exponent, before, lead, len,
                          (ssize_t)at, into);
                }
                unsigned within;
                int ended;
                cc_counter block = cc_stream_position(s, &within, &ended);
                CHECK(block.lo == (lead + len) / 16 && !block.hi && within == (lead + len) % 16 && !ended, "position after %zu", len);
            }
        }
}

static void check_cells(const cc_kernel *kernel, cc_stream *s, int key_len, int exponent, unsigned before, size_t header,
                        size_t payload, size_t count)
{
    size_t stride = header + payload, total = stride * count, need = payload * count;
    uint8_t key[32], iv[16];
    uint8_t *want = malloc(need + 64), *text = malloc(total), *in = malloc(total + 64), *out = malloc(total + 64);
    slow_aes a;
    fill(key, 32);
    fill(text, total);
    counter_near(iv, exponent, before);
    slow_expand(&a, key, key_len);
    size_t lead = dice() % 16;
    slow_keystream(&a, iv, want, (lead + need) / 16 + 1);
    for (int into = 0; into < 2; into++) {
        memset(in, 0xa5, total + 64);
        memcpy(in + 7, text, total);
        memset(out, 0xa5, total + 64);
        uint8_t *target = into ? out : in;
        cc_stream_init(s, kernel, key, (size_t)key_len, iv);
        cc_stream_seek(s, (cc_counter){0}, (unsigned)lead);
        /* in two calls, so that the second begins where the first ended */
        size_t first = dice() % (count + 1);
        cc_xor_cells(s, in + 7 + header, target + 7 + header, stride, payload, first);
        cc_xor_cells(s, in + 7 + header + first * stride, target + 7 + header + first * stride, stride, payload, count - first);
        for (size_t i = 0; i < total + 64; i++) {
            size_t at = i - 7, cell = at / stride, octet = at % stride;
            uint8_t expected = 0xa5;
            if (i >= 7 && at < total) {
                if (octet >= header)
                    expected = text[at] ^ want[lead + cell * payload + octet - header];
                else if (!into)
                    expected = text[at];
            }
            CHECK(target[i] == expected, "AES-%d, 2^%d - %u, %zu + %zu octets, cell %zu of %zu, octet %zu, into %d", key_len * 8, exponent,
                  before, header, payload, cell, count, octet, into);
        }
    }
    free(want);
    free(text);
    free(in);
    free(out);
}

static void check_keystream(const cc_kernel *kernel, cc_stream *s, int key_len)
{
    uint8_t key[32], iv[16] = {0}, want[2048], out[2048];
    slow_aes a;
    fill(key, 32);
    slow_expand(&a, key, key_len);
    slow_keystream(&a, iv, want, sizeof want / 16);
    for (size_t len = 0; len < 600; len++) {
        cc_stream_init(s, kernel, key, (size_t)key_len, iv);
        memset(out, 0xa5, sizeof out);
        for (size_t at = 0; at < 1200; at += len ? len : 1200) {
            cc_keystream(s, out + at, len);
            CHECK(!memcmp(out + at, want + at, len) && out[at + len] == 0xa5, "key stream, %zu at %zu", len, at);
        }
    }
    for (size_t blocks = 0; blocks < 100; blocks++) {
        memset(out, 0xa5, sizeof out);
        kernel->keystream(s->round_keys, s->rounds, (cc_counter){0}, out + 3, blocks);
        CHECK(!memcmp(out + 3, want, 16 * blocks) && out[3 + 16 * blocks] == 0xa5, "%zu blocks", blocks);
    }
    cc_aes_limit(kernel, s->round_keys, s->rounds, 1000);
}

/* Payloads that touch a protected page in front or behind. */
static void check_pages(const cc_kernel *kernel, cc_stream *s)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = 5 * page;
    uint8_t *map = mmap(NULL, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *want = malloc(room), key[16] = {1}, iv[16] = {2};
    if (map == MAP_FAILED || mprotect(map + page, room, PROT_READ | PROT_WRITE))
        exit(2);
    uint8_t *low = map + page, *high = low + room;
    slow_aes a;
    slow_expand(&a, key, 16);
    slow_keystream(&a, iv, want, room / 16);
    cc_stream_init(s, kernel, key, 16, iv);
    for (size_t len = 1; len <= 600; len++)
        for (unsigned lead = 0; lead < 16; lead++)
            for (int end = 0; end < 2; end++) {
                uint8_t *at = end ? high - len : low;
                memset(at, 0, len);
                cc_stream_seek(s, (cc_counter){0}, lead);
                cc_xor_cells(s, at, at, len, len, 1);
                CHECK(!memcmp(at, want + lead, len), "beside a page: %zu octets, lead %u, end %d", len, lead, end);
            }
    size_t count = room / 514;
    for (int end = 0; end < 2; end++) {
        uint8_t *at = end ? high - 514 * count : low;
        memset(at, 0, 514 * count);
        cc_stream_seek(s, (cc_counter){0}, 0);
        cc_xor_cells(s, at + 5, at + 5, 514, 509, count);
        for (size_t i = 0; i < count; i++)
            CHECK(!memcmp(at + 514 * i + 5, want + 509 * i, 509), "cells beside a page: %zu, end %d", i, end);
    }
    munmap(map, room + 2 * page);
    free(want);
}

static void check_ends(const cc_kernel *kernel, cc_stream *s)
{
    uint8_t key[16] = {3}, iv[16], buffer[64] = {0}, want[32];
    unsigned within;
    int ended;
    slow_aes a;
    counter_near(iv, 80, 5);
    slow_expand(&a, key, 16);
    cc_stream_init(s, kernel, key, 16, iv);
    CHECK(cc_stream_has(s, SIZE_MAX), "all of it");
    cc_stream_seek(s, (cc_counter){.lo = UINT64_MAX, .hi = UINT64_MAX}, 0);
    CHECK(cc_stream_has(s, 16) && !cc_stream_has(s, 17), "one block is left");
    cc_stream_seek(s, (cc_counter){.lo = UINT64_MAX - 1, .hi = UINT64_MAX}, 9);
    CHECK(cc_stream_has(s, 23) && !cc_stream_has(s, 24), "23 octets are left");
    cc_xor_cells(s, buffer, buffer, 20, 20, 1);
    counter_near(iv, 80, 7);
    slow_keystream(&a, iv, want, 2);
    CHECK(!memcmp(buffer, want + 9, 20), "the last block but one");
    CHECK(cc_stream_has(s, 3) && !cc_stream_has(s, 4), "3 octets are left");
    cc_counter at = cc_stream_position(s, &within, &ended);
    CHECK(at.lo == UINT64_MAX && at.hi == UINT64_MAX && within == 13 && !ended, "position before the end");
    cc_xor_cells(s, buffer, buffer, 3, 3, 1);
    cc_stream_position(s, &within, &ended);
    CHECK(ended && cc_stream_has(s, 0) && !cc_stream_has(s, 1), "the end");
    cc_stream_seek(s, (cc_counter){.lo = 1}, 15);
    at = cc_stream_position(s, &within, &ended);
    CHECK(at.lo == 1 && !at.hi && within == 15 && !ended && cc_stream_has(s, SIZE_MAX), "and back");
    cc_stream_wipe(s);
    for (size_t i = 0; i < sizeof *s; i++)
        CHECK(!((uint8_t *)s)[i], "wiped");
}

/* Calls on a stack of our own, which can be read after them. */
typedef struct {
    cc_stream *stream;
    uint8_t *buffer;
    size_t payload, count;
} call;

static void *call_it(void *argument)
{
    call *c = argument;
    cc_xor_cells(c->stream, c->buffer, c->buffer, c->payload, c->payload, c->count);
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    return memcmp(a, b, 8);
}

static void check_stack(const cc_kernel *kernel, cc_stream *s, int key_len, size_t payload, size_t count)
{
    enum { STACK = 1 << 18, KEYS = 16 * 15 };
    size_t total = payload * count, blocks = total / 16 + 2, secrets = (KEYS + 16 * blocks) / 8;
    uint8_t key[32], iv[16] = {9};
    uint8_t *secret = calloc(secrets, 8), *buffer = malloc(total), *stack = NULL;
    slow_aes a;
    if (posix_memalign((void **)&stack, 4096, STACK))
        exit(2);
    memset(stack, 0, STACK);
    fill(key, 32);
    fill(buffer, total);
    slow_expand(&a, key, key_len);
    memcpy(secret, a.keys, 16 * (size_t)(a.rounds + 1));
    slow_keystream(&a, iv, secret + KEYS, blocks);
    qsort(secret, secrets, 8, by_value);
    cc_stream_init(s, kernel, key, (size_t)key_len, iv);
    cc_stream_seek(s, (cc_counter){0}, 3);

    pthread_attr_t attributes;
    pthread_t thread;
    call c = {s, buffer, payload, count};
    CHECK(!pthread_attr_init(&attributes) && !pthread_attr_setstack(&attributes, stack, STACK)
              && !pthread_create(&thread, &attributes, call_it, &c) && !pthread_join(thread, NULL),
          "no thread");
    pthread_attr_destroy(&attributes);
    static const uint8_t zero[8];
    for (size_t i = 0; i + 8 <= STACK; i++)
        if (memcmp(stack + i, zero, 8))
            CHECK(!bsearch(stack + i, secret, secrets, 8, by_value), "AES-%d, %zu x %zu octets: a secret %zu octets below the top",
                  key_len * 8, count, payload, STACK - i);
    free(secret);
    free(buffer);
    free(stack);
}

/* The C library copies through registers 16 to 31 where there are any, whatever the kernel. */
#ifdef __x86_64__
__attribute__((target("avx512f"))) static void check_registers(const cc_kernel *kernel)
{
    uint8_t after[2][64];
    __asm__ volatile("vpternlogd $0xff, %%zmm17, %%zmm17, %%zmm17\n\tvmovdqa64 %%zmm17, %%zmm31" : : : "xmm17", "xmm31");
    cc_forget(kernel);
    __asm__ volatile("vmovdqu64 %%zmm17, %0\n\tvmovdqu64 %%zmm31, %1" : "=m"(after[0]), "=m"(after[1]));
    for (int i = 0; i < 64; i++)
        CHECK(!after[0][i] && !after[1][i], "a register is not forgotten");
}
#endif

int main(int argc, char **argv)
{
    cc_stream *s = new_stream();
    int ran = 0, step = argc < 3 ? 0 : !strcmp(argv[2], "full") ? 1 : !strcmp(argv[2], "quick") ? 73 : 0;
    make_sbox();
    known_answer();
    for (const cc_kernel *const *k = cc_kernels; *k; k++) {
        if (!cc_kernel_usable(*k) || (argc > 1 && strcmp(argv[1], "all") && strcmp(argv[1], (*k)->name))) {
            printf("%-9s not run\n", (*k)->name);
            continue;
        }
        snprintf(now, sizeof now, "%s", (*k)->name);
        ran++;
        unsigned long before = checks;
        for (int l = 0; l < 3; l++) {
            for (size_t e = 0; e < sizeof exponents / sizeof *exponents; e++)
                for (unsigned b = 0; b <= 72; b += step ? (unsigned)step : 1 + dice() % 36)
                    check_lengths(*k, s, key_lens[l], exponents[e], b);
            for (int e = 32; e <= 64; e += 8) {
                check_cells(*k, s, key_lens[l], e, (unsigned)(dice() % 500), 5, 509, 90);
                check_cells(*k, s, key_lens[l], e, (unsigned)(dice() % 9000), 5, 509, 280);
            }
            check_cells(*k, s, key_lens[l], 96, 4000, 4, 508, 280);
            check_cells(*k, s, key_lens[l], 128, 0, 3, 512, 280);
            check_cells(*k, s, key_lens[l], 72, 0, 0, 65535, 3);
            check_cells(*k, s, key_lens[l], 48, 1, 1, 79, 700);
            for (size_t payload = 80; payload < 700; payload += 1 + dice() % 19)
                check_cells(*k, s, key_lens[l], 128, 0, 5, payload, 17000 / payload + 3);
            check_keystream(*k, s, key_lens[l]);
            static const size_t payloads[] = {20, 509, 508, 200, 330, 700, 1021, 5000};
            for (size_t p = 0; p < sizeof payloads / sizeof *payloads; p += step == 73 ? 2 : 1)
                for (size_t count = 1; count <= 100; count = count * 3 + 1)
                    check_stack(*k, s, key_lens[l], payloads[p], count);
        }
#ifdef __x86_64__
        if (__builtin_cpu_supports("avx512f"))
            check_registers(*k);
#endif
        check_pages(*k, s);
        check_ends(*k, s);
        printf("%-9s %lu checks passed\n", now, checks - before);
    }
    free(s);
    return ran ? 0 : 2;
}
