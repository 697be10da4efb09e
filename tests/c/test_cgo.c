/* Checks Counter Galois Onion in C, without Python, against itself written here as proposal 359 and RFC 8452 read: POLYVAL
 * bit by bit, AES by the portable kernel, which test_kernels.c compares with FIPS-197.
 *
 * Every AES kernel that this processor runs x every POLYVAL kernel x both key lengths x both roles:
 *   cells       all three operations in random order, at every alignment, each payload between protected pages
 *   nonces      every one of the 128 bits of a nonce that differs alone keeps a cell from being recognized
 *   wipe        nothing of a state is left
 * A failure says which and ends the program with status 1. Usage: test_cgo [few]: less of each, for slow builds. */
#define _GNU_SOURCE
#include "cgo.h"
#include "check.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern const cc_kernel cc_portable;

/* ---- as the papers read ---- */

static unsigned bit(const uint8_t *x, int i)
{
    return x[i / 8] >> i % 8 & 1;
}

/* x * y / x^128: for each coefficient of y from the lowest on, add x, then divide by x. */
static void slow_dot(uint8_t out[16], const uint8_t x[16], const uint8_t y[16])
{
    uint8_t sum[17] = {0}; /* 129 coefficients */
    for (int i = 0; i < 128; i++) {
        for (int b = 0; bit(y, i) && b < 16; b++)
            sum[b] ^= x[b];
        if (sum[0] & 1) { /* add x^128 + x^127 + x^126 + x^121 + 1 */
            sum[0] ^= 1;
            sum[15] ^= 0xc2;
            sum[16] ^= 1;
        }
        for (int b = 0; b < 16; b++)
            sum[b] = (uint8_t)(sum[b] >> 1 | sum[b + 1] << 7);
        sum[16] >>= 1;
    }
    memcpy(out, sum, 16);
}

static void slow_polyval(uint8_t out[16], const uint8_t key[16], const uint8_t *data, size_t len)
{
    uint8_t sum[16] = {0};
    for (size_t i = 0; i < len; i++) {
        sum[i % 16] ^= data[i];
        if (i % 16 == 15 || i == len - 1)
            slow_dot(sum, sum, key);
    }
    memcpy(out, sum, 16);
}

typedef struct {
    uint8_t material[112], tag[16];
    size_t key_len;
} slow_cgo;

/* E of `block` and the blocks after it, as if it were a counter. */
static void slow_aes(const uint8_t *key, size_t key_len, const uint8_t block[16], uint8_t *out, size_t blocks)
{
    uint8_t round_keys[CC_ROUND_KEYS];
    cc_counter counter = {0, 0};
    for (int i = 0; i < 8; i++) {
        counter.hi = counter.hi << 8 | block[i];
        counter.lo = counter.lo << 8 | block[8 + i];
    }
    cc_portable.expand(round_keys, key, key_len);
    cc_portable.keystream(round_keys, (unsigned)key_len / 4 + 6, counter, out, blocks);
}

static void slow_tweak(const slow_cgo *c, uint8_t command, const uint8_t *payload, uint8_t out[16])
{
    uint8_t tweak[510];
    memcpy(tweak, c->tag, 16);
    tweak[16] = command;
    memcpy(tweak + 17, payload + 16, 493);
    slow_polyval(out, c->material + c->key_len, tweak, sizeof tweak);
}

static void slow_prf(const slow_cgo *c, const uint8_t start[16], unsigned t, uint8_t *out, size_t blocks)
{
    uint8_t counter[16];
    slow_polyval(counter, c->material + 2 * c->key_len + 16, start, 16);
    counter[15] = (uint8_t)((counter[15] & 0xc0) + 31 * t);
    slow_aes(c->material + c->key_len + 16, c->key_len, counter, out, blocks);
}

static void slow_crypt(slow_cgo *c, uint8_t *payload, uint8_t command, cc_cgo_role role)
{
    uint8_t mask[16], stream[496], in[16], y_l[16];
    if (role == CC_CGO_RELAY) {
        slow_tweak(c, command, payload, mask);
        for (int i = 0; i < 16; i++)
            in[i] = payload[i] ^ mask[i];
        slow_aes(c->material, c->key_len, in, payload, 1);
        for (int i = 0; i < 16; i++)
            payload[i] ^= mask[i];
    }
    memcpy(y_l, payload, 16);
    slow_prf(c, y_l, 0, stream, 31);
    for (int i = 0; i < 493; i++)
        payload[16 + i] ^= stream[i];
    if (role == CC_CGO_CLIENT) { /* the inverse cipher, checked by encrypting what it makes: see `compare` */
        slow_tweak(c, command, payload, mask);
        memcpy(payload, mask, 16);
    }
    memcpy(c->tag, y_l, 16);
}

/* What the client's X_L should be is only known backwards: E(X_L ^ mask) ^ mask is Y_L. */
static void compare(const slow_cgo *c, const uint8_t *got, const uint8_t *expected, cc_cgo_role role)
{
    uint8_t block[16];
    CHECK(memcmp(got + 16, expected + 16, 493) == 0, "X_R or Y_R");
    if (role == CC_CGO_RELAY) {
        CHECK(memcmp(got, expected, 16) == 0, "Y_L");
        return;
    }
    for (int i = 0; i < 16; i++)
        block[i] = got[i] ^ expected[i];
    slow_aes(c->material, c->key_len, block, block, 1);
    for (int i = 0; i < 16; i++)
        block[i] ^= expected[i];
    CHECK(memcmp(block, c->tag, 16) == 0, "X_L");
}

static void slow_update(slow_cgo *c)
{
    uint8_t material[112];
    slow_prf(c, c->tag, 1, material, (2 * c->key_len + 48) / 16);
    memcpy(c->material, material, sizeof material);
}

/* ---- the checks ---- */

/* A payload of 509 octets between protected pages, as near to the first (side 0) or the last as `distance` says. */
static uint8_t *pages;
static size_t page;

static void make_pages(void)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    pages = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_READ | PROT_WRITE)) {
        perror("mmap");
        exit(2);
    }
}

static uint8_t *payload_at(int side, size_t distance)
{
    fill(pages + page, page);
    return side ? pages + 2 * page - CC_CGO_PAYLOAD - distance : pages + page + distance;
}

static void check_surroundings(const uint8_t *before, const uint8_t *payload)
{
    size_t at = (size_t)(payload - pages) - page;
    CHECK(memcmp(before, pages + page, at) == 0, "octets before the payload");
    CHECK(memcmp(before + at + CC_CGO_PAYLOAD, payload + CC_CGO_PAYLOAD, page - at - CC_CGO_PAYLOAD) == 0, "octets after it");
}

static void check_cells(const cc_kernel *kernel, const cc_polyval *polyval, size_t key_len, cc_cgo_role role, int cells)
{
    static cc_cgo fast __attribute__((aligned(64)));
    slow_cgo slow = {.key_len = key_len};
    uint8_t material[112], expected[CC_CGO_PAYLOAD], tag[16], *before = malloc(page);
    fill(material, sizeof material);
    memcpy(slow.material, material, sizeof material);
    cc_cgo_init(&fast, kernel, polyval, role, material, key_len);
    for (int i = 0; i < cells; i++) {
        uint8_t *payload = payload_at(i % 2, (size_t)(i / 2) % 64), command = (uint8_t)dice();
        int what = (int)(dice() % 3);
        memcpy(expected, payload, sizeof expected);
        memcpy(before, pages + page, page);
        if (what == 0) {
            memcpy(expected, slow.material + 2 * key_len + 32, 16);
            cc_cgo_originate(&fast, payload, command, tag);
            CHECK(memcmp(tag, payload, 16) == 0, "tag");
        } else if (what == 1)
            CHECK(cc_cgo_receive(&fast, payload, command, tag) == 0 && memcmp(tag, expected, 16) == 0, "a foreign cell");
        else
            cc_cgo_pass(&fast, payload, command);
        slow_crypt(&slow, expected, command, role);
        compare(&slow, payload, expected, role);
        check_surroundings(before, payload);
        if (what == 0)
            slow_update(&slow);
    }
    cc_cgo_wipe(&fast);
    for (size_t i = 0; i < sizeof fast; i++)
        CHECK(((uint8_t *)&fast)[i] == 0, "octet %zu of the state after the wipe", i);
    free(before);
}

/* Cells of a relay's own reach its client, and with one bit of the client's nonce changed none does; likewise forward. */
static void check_nonces(const cc_kernel *kernel, const cc_polyval *polyval, size_t key_len, cc_cgo_role sender, int step)
{
    static cc_cgo from __attribute__((aligned(64))), to __attribute__((aligned(64)));
    uint8_t material[112], payload[CC_CGO_PAYLOAD], tags[2][16];
    for (int b = -1; b < 128; b += step) {
        fill(material, sizeof material);
        cc_cgo_init(&from, kernel, polyval, sender, material, key_len);
        if (b >= 0)
            material[2 * key_len + 32 + b / 8] ^= (uint8_t)(1 << b % 8);
        cc_cgo_init(&to, kernel, polyval, sender == CC_CGO_RELAY ? CC_CGO_CLIENT : CC_CGO_RELAY, material, key_len);
        for (int cell = 0; cell < 3; cell++) {
            fill(payload, sizeof payload);
            cc_cgo_originate(&from, payload, 3, tags[0]);
            int ours = cc_cgo_receive(&to, payload, 3, tags[1]);
            if (ours)
                cc_cgo_update(&to);
            CHECK(ours == (b < 0), "bit %d of the nonce, cell %d", b, cell);
            CHECK(memcmp(tags[0], tags[1], 16) == 0, "tag");
        }
    }
}

static void check_polyval(const cc_polyval *polyval)
{
    uint8_t key[16], data[600], got[16], expected[16];
    snprintf(now, sizeof now, "%s", polyval->name);
    for (size_t len = 0; len <= sizeof data; len += 1 + len / 40) {
        fill(key, sizeof key);
        fill(data, sizeof data);
        if (len % 5 == 0)
            memset(key, len % 2 ? 0xff : 0, sizeof key);
        if (len % 7 == 0)
            memset(data, 0xff, sizeof data);
        slow_polyval(expected, key, data, len);
        cc_polyval_hash(polyval, got, key, data, len);
        CHECK(memcmp(got, expected, 16) == 0, "%zu octets", len);
    }
}

int main(int argc, char **argv)
{
    const int few = argc > 1 && strcmp(argv[1], "few") == 0;
    static const uint8_t key[] = {0x25, 0x62, 0x93, 0x47, 0x58, 0x92, 0x42, 0x76, 0x1d, 0x31, 0xf8, 0x26, 0xba, 0x4b, 0x75, 0x7b};
    static const uint8_t data[] = {0x4f, 0x4f, 0x95, 0x66, 0x8c, 0x83, 0xdf, 0xb6, 0x40, 0x17, 0x62, 0xbb, 0x2d, 0x01, 0xa2, 0x62,
                                   0xd1, 0xa2, 0x4d, 0xdd, 0x27, 0x21, 0xd0, 0x06, 0xbb, 0xe4, 0x5f, 0x20, 0xd3, 0xc9, 0xf3, 0x62};
    static const uint8_t hash[] = {0xf7, 0xa3, 0xb4, 0x7b, 0x84, 0x61, 0x19, 0xfa, 0xe5, 0xb7, 0x86, 0x6c, 0xf5, 0xe5, 0xb7, 0x7e};
    uint8_t out[16];
    make_pages();
    strcpy(now, "RFC 8452, appendix A");
    slow_polyval(out, key, data, sizeof data);
    CHECK(memcmp(out, hash, 16) == 0, "POLYVAL");
    for (const cc_polyval *const *p = cc_polyvals; *p; p++)
        if (cc_polyval_usable(*p))
            check_polyval(*p);
    for (const cc_kernel *const *k = cc_kernels; *k; k++)
        for (const cc_polyval *const *p = cc_polyvals; *p; p++)
            for (int what = 0; what < 4 && cc_kernel_usable(*k) && cc_polyval_usable(*p); what++) {
                size_t key_len = what % 2 ? 32 : 16;
                cc_cgo_role role = what / 2 ? CC_CGO_CLIENT : CC_CGO_RELAY;
                snprintf(now, sizeof now, "%s, %s, AES-%zu, %s", (*k)->name, (*p)->name, 8 * key_len, what / 2 ? "client" : "relay");
                check_cells(*k, *p, key_len, role, few ? 130 : 256); /* twice 64 alignments, and some */
                check_nonces(*k, *p, key_len, role, few ? 16 : 1);
            }
    printf("%lu checks passed\n", checks);
    return 0;
}
