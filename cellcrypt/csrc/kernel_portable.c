/* The portable kernel: AES in plain 64-bit arithmetic, for processors without AES instructions.
 *
 * Rules
 *   - No table and no branch sees a secret: the S-box is computed, not looked up, so the time depends on lengths alone.
 *   - Nothing depends on byte order. A plane is two uint64_t side by side, in the compiler's own vector type: one register
 *     where the processor has such registers (x86-64 and arm64 always do), two where it does not.
 *
 * Theory. Two times four blocks are worked on at once, "bit-sliced": of four blocks, plane j holds bit j of all 64 octets
 * of their states. Octet p (FIPS-197, section 3.4: row p % 4, column p / 4) of block b owns bit 4 * p + b of every plane.
 * Then
 *   - SubBytes is one Boolean circuit over eight planes, which computes 128 S-boxes together;
 *   - ShiftRows turns row r by r columns, and a column is 16 bits: it is a rotation of the plane by 16 * r;
 *   - MixColumns looks at the next octets of its column, and an octet is 4 bits: a rotation inside each 16 bits.
 * The circuit inverts in GF(2^8) seen as pairs over GF(2^4), and these as pairs over GF(2^2) (the idea of Rijmen, 2000, and
 * of Satoh and others, ASIACRYPT 2001). Bases: w^2 = w + 1; z^2 = z + (w + 1); y^2 = y + (wz + w). They were chosen by
 * trying all of them for the fewest additions on the way in and out. */
#include "kernel.h"

#define FOUR 4             /* blocks in half a plane */
#define AT_ONCE (2 * FOUR) /* blocks in one set of planes */
#define PLANES 8

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi" /* how a 32-bit processor passes vectors: none leaves this file */
#pragma GCC optimize("no-tree-slp-vectorize") /* it pairs words on the way in and out of planes: 1.5 % (Ice Lake, December 2026) */
#define SHUFFLE(x, ...) __builtin_shuffle(x, (__typeof__(x)){__VA_ARGS__})
#else
#define SHUFFLE(x, ...) __builtin_shufflevector(x, x, __VA_ARGS__)
#endif
typedef uint64_t plane __attribute__((vector_size(16)));
typedef uint16_t columns __attribute__((vector_size(16))); /* the same by its columns, in whatever order they lie */
typedef uint32_t halves __attribute__((vector_size(16)));  /* and by two columns */

/* ---- arithmetic, 128 field elements at once; field `hi` is the coefficient of w, z or y ---- */

typedef struct {
    plane hi, lo;
} gf4;

typedef struct {
    gf4 hi, lo;
} gf16;

CC_INLINE gf4 add4(gf4 a, gf4 b)
{
    return (gf4){a.hi ^ b.hi, a.lo ^ b.lo};
}

/* gcc keeps the order of what is written: `lo` first leaves it fewer planes to spill, 1.4 % (Ice Lake, December 2026). */
CC_INLINE gf4 mul4(gf4 a, gf4 b)
{
    plane low = a.lo & b.lo, lo = (a.hi & b.hi) ^ low;
    return (gf4){((a.hi ^ a.lo) & (b.hi ^ b.lo)) ^ low, lo};
}

/* The square, which in GF(4) is also the inverse. */
CC_INLINE gf4 square4(gf4 a)
{
    return (gf4){a.hi, a.hi ^ a.lo};
}

/* Times w + 1, the constant of GF(16). */
CC_INLINE gf4 scale4(gf4 a)
{
    return (gf4){a.lo, a.hi ^ a.lo};
}

CC_INLINE gf16 add16(gf16 a, gf16 b)
{
    return (gf16){add4(a.hi, b.hi), add4(a.lo, b.lo)};
}

CC_INLINE gf16 mul16(gf16 a, gf16 b)
{
    gf4 low = mul4(a.lo, b.lo);
    return (gf16){add4(mul4(add4(a.hi, a.lo), add4(b.hi, b.lo)), low), add4(scale4(mul4(a.hi, b.hi)), low)};
}

/* The square times wz + w, the constant of GF(256). */
CC_INLINE gf16 square_scale16(gf16 a)
{
    return (gf16){{a.hi.hi ^ a.lo.lo, a.hi.hi ^ a.hi.lo ^ a.lo.hi}, {a.lo.lo, a.lo.hi}};
}

/* 1 / (hi z + lo) = (hi z + hi + lo) / norm, and the norm lies in GF(4). */
CC_INLINE gf16 invert16(gf16 a)
{
    gf4 sum = add4(a.hi, a.lo);
    gf4 norm = add4(mul4(sum, a.lo), scale4(square4(a.hi)));
    gf4 inverse = square4(norm);
    return (gf16){mul4(a.hi, inverse), mul4(sum, inverse)};
}

/* FIPS-197, section 5.1.1, on eight planes. */
CC_INLINE void sub_bytes(plane q[PLANES])
{
    /* from the field of the standard to the tower */
    plane q15 = q[1] ^ q[5], q615 = q[6] ^ q15, q24 = q[2] ^ q[4], q27 = q[2] ^ q[7];
    gf16 lo = {{q24, q27}, {q[1] ^ q[7], q[0] ^ q615}};
    gf16 hi = {{q[5] ^ q[7], q615 ^ q[3] ^ q24}, {q27 ^ q[3] ^ q[5], q[1]}};

    /* 1 / (hi y + lo) = (hi y + hi + lo) / norm, and the norm lies in GF(16) */
    gf16 sum = add16(hi, lo);
    gf16 inverse = invert16(add16(mul16(sum, lo), square_scale16(hi)));
    hi = mul16(hi, inverse);
    lo = mul16(sum, inverse);

    /* back again, with the affine map of the standard on top; its constant 0x63 flips planes 0, 1, 5 and 6 */
    plane t04 = lo.lo.lo ^ hi.lo.lo, t23 = lo.hi.lo ^ lo.hi.hi, t014 = lo.lo.hi ^ t04;
    plane t46 = hi.lo.lo ^ hi.hi.lo, t046 = hi.hi.lo ^ t04;
    q[0] = ~(t04 ^ t23);
    q[1] = ~t014;
    q[2] = t014 ^ lo.hi.lo ^ hi.hi.hi;
    q[3] = t23 ^ t046;
    q[4] = t046;
    q[5] = ~(t23 ^ hi.lo.lo ^ hi.lo.hi);
    q[6] = ~t46;
    q[7] = lo.hi.lo ^ t46;
}

/* Rotations by one column and by two. With SSE2 shuffles take 7 % off gcc's time, 3 % off clang's (Ice Lake, December 2026);
 * without vector registers, by one column, they would cost 24 %. */
CC_INLINE plane by_one(plane x)
{
#ifdef __SSE2__
    return (plane)SHUFFLE((columns)x, 1, 2, 3, 0, 5, 6, 7, 4);
#else
    return x >> 16 | x << 48;
#endif
}

CC_INLINE plane by_two(plane x)
{
    return (plane)SHUFFLE((halves)x, 1, 0, 3, 2);
}

/* Copies of a mask. */
CC_INLINE plane each(uint64_t mask)
{
    return (plane){mask, mask};
}

/* `then` where the mask has ones, else x. */
CC_INLINE plane choose(plane x, plane then, uint64_t mask)
{
    return x ^ ((x ^ then) & each(mask));
}

/* Rows 1 and 3 by one column, then rows 2 and 3 by two. */
CC_INLINE plane shift_row(plane q)
{
    q = choose(q, by_one(q), 0xf0f0f0f0f0f0f0f0);
    return choose(q, by_two(q), 0xff00ff00ff00ff00);
}

CC_INLINE void shift_rows(plane q[PLANES])
{
    EACH(j, PLANES, q[j] = shift_row(q[j]););
}

/* Each octet's place taken by the octet one or two below it in its column. */
CC_INLINE plane below(plane x)
{
    columns c = (columns)x;
    return (plane)(c >> 4 | c << 12);
}

CC_INLINE plane two_below(plane x)
{
    columns c = (columns)x;
    return (plane)(c >> 8 | c << 8);
}

/* FIPS-197, section 5.1.3: 2 a + 3 b + c + d = 2 (a + b) + b + (c + d), where b, c, d stand below a. Doubling moves each
 * plane one up, and the top one also into planes 0, 1, 3 and 4 (the polynomial 0x11b). */
CC_INLINE void mix_columns(plane q[PLANES])
{
    plane b[EACH_MOST], pair[EACH_MOST];
    EACH(j, PLANES, b[j] = below(q[j]); pair[j] = q[j] ^ b[j];);
    EACH(j, PLANES, q[j] = b[j] ^ two_below(pair[j]) ^ pair[(j + 7) % 8]; if (j == 1 || j == 3 || j == 4) q[j] ^= pair[7];);
}

/* ---- in and out of planes ---- */

CC_INLINE void swap_bits(plane *a, plane *b, int shift, uint64_t mask)
{
    plane t = (*a >> shift ^ *b) & each(mask);
    *b ^= t;
    *a ^= t << shift;
}

/* Bit j of octet k of word i changes places with bit i of octet k of word j. */
static void transpose(plane q[PLANES])
{
    EACH(i, PLANES, if (!(i & 1)) swap_bits(&q[i], &q[i + 1], 1, 0x5555555555555555););
    EACH(i, PLANES, if (!(i & 2)) swap_bits(&q[i], &q[i + 2], 2, 0x3333333333333333););
    EACH(i, PLANES, if (!(i & 4)) swap_bits(&q[i], &q[i + 4], 4, 0x0f0f0f0f0f0f0f0f););
}

/* Octets 0, 2, 4, 6 of a word, moved together; and apart again. */
CC_INLINE plane gather_even(plane x)
{
    x &= each(0x00ff00ff00ff00ff);
    x = (x | x >> 8) & each(0x0000ffff0000ffff);
    return (x | x >> 16) & each(0x00000000ffffffff);
}

CC_INLINE plane scatter_even(plane x)
{
    x &= each(0x00000000ffffffff);
    x = (x | x << 16) & each(0x0000ffff0000ffff);
    return (x | x << 8) & each(0x00ff00ff00ff00ff);
}

/* Of four blocks, word b holds the even octets of block b and word 4 + b the odd ones, octet 2 k + odd in bits 8 k on: then
 * `transpose` brings octet p of block b to bit 8 * (p / 2) + 4 * (p % 2) + b = 4 * p + b, as promised above. */
static void slice(plane q[PLANES], uint8_t blocks[AT_ONCE][CC_BLOCK])
{
    EACH(b, FOUR, {
        const uint8_t *one = blocks[b], *other = blocks[FOUR + b];
        plane first = {cc_get64_little(one), cc_get64_little(other)};
        plane second = {cc_get64_little(one + 8), cc_get64_little(other + 8)};
        q[b] = gather_even(first) | gather_even(second) << 32;
        q[FOUR + b] = gather_even(first >> 8) | gather_even(second >> 8) << 32;
    });
    transpose(q);
}

static void unslice(uint8_t blocks[AT_ONCE][CC_BLOCK], plane q[PLANES])
{
    transpose(q);
    EACH(b, FOUR, {
        uint8_t *one = blocks[b], *other = blocks[FOUR + b];
        plane even = q[b], odd = q[FOUR + b];
        plane first = scatter_even(even) | scatter_even(odd) << 8;
        plane second = scatter_even(even >> 32) | scatter_even(odd >> 32) << 8;
        cc_put64_little(one, first[0]);
        cc_put64_little(one + 8, second[0]);
        cc_put64_little(other, first[1]);
        cc_put64_little(other + 8, second[1]);
    });
}

CC_INLINE void add_round_key(plane q[PLANES], const plane key[PLANES])
{
    EACH(j, PLANES, q[j] ^= key[j];);
}

/* FIPS-197, section 5.1. */
static void encrypt(plane state[PLANES], plane keys[][PLANES], unsigned rounds)
{
    plane q[EACH_MOST];
    EACH(j, PLANES, q[j] = state[j];);
    add_round_key(q, keys[0]);
    for (unsigned r = 1; r < rounds; r++) {
        sub_bytes(q);
        shift_rows(q);
        mix_columns(q);
        add_round_key(q, keys[r]);
    }
    sub_bytes(q);
    shift_rows(q);
    add_round_key(q, keys[rounds]);
    EACH(j, PLANES, state[j] = q[j];);
}

/* ---- the kernel ---- */

/* SubWord of FIPS-197, section 5.2. */
static void sub_word(uint8_t word[4])
{
    plane q[PLANES];
    for (int j = 0; j < PLANES; j++) {
        q[j] = each(0);
        for (int i = 0; i < 4; i++)
            q[j] |= each((uint64_t)(word[i] >> j & 1) << i);
    }
    sub_bytes(q);
    for (int i = 0; i < 4; i++) {
        word[i] = 0;
        for (int j = 0; j < PLANES; j++)
            word[i] |= (uint8_t)((q[j][0] >> i & 1) << j);
    }
    cc_wipe(q, sizeof q);
}

/* FIPS-197, section 5.2. The round keys lie as the standard numbers them, one octet after the other. */
static void expand(uint8_t round_keys[CC_ROUND_KEYS], const uint8_t *key, size_t key_len)
{
    const size_t total = CC_BLOCK * (key_len / 4 + 7); /* rounds = words in the key + 6 */
    uint8_t word[4];
    unsigned rcon = 1;

    memcpy(round_keys, key, key_len);
    for (size_t at = key_len; at < total; at += 4) {
        memcpy(word, round_keys + at - 4, 4);
        if (at % key_len == 0) {
            uint8_t first = word[0];
            word[0] = word[1];
            word[1] = word[2];
            word[2] = word[3];
            word[3] = first;
            sub_word(word);
            word[0] ^= (uint8_t)rcon;
            rcon = rcon << 1 ^ (rcon >> 7) * 0x11b;
        } else if (key_len == 32 && at % key_len == 16)
            sub_word(word);
        for (int i = 0; i < 4; i++)
            round_keys[at + i] = round_keys[at + i - key_len] ^ word[i];
    }
    cc_wipe(word, sizeof word);
}

static void slice_keys(plane keys[][PLANES], const uint8_t *round_keys, unsigned rounds)
{
    uint8_t copies[AT_ONCE][CC_BLOCK];
    for (unsigned r = 0; r <= rounds; r++) {
        for (int b = 0; b < AT_ONCE; b++)
            memcpy(copies[b], round_keys + CC_BLOCK * r, CC_BLOCK);
        slice(keys[r], copies);
    }
    cc_wipe(copies, sizeof copies);
}

__attribute__((noinline)) static void make_blocks(const uint8_t *round_keys, unsigned rounds, cc_counter counter, uint8_t *out, size_t blocks)
{
    plane keys[CC_MAX_ROUNDS + 1][PLANES], q[PLANES];
    uint8_t states[AT_ONCE][CC_BLOCK];

    slice_keys(keys, round_keys, rounds);
    while (blocks) {
        size_t n = blocks < AT_ONCE ? blocks : AT_ONCE;
        for (int b = 0; b < AT_ONCE; b++) {
            cc_put64(states[b], counter.hi);
            cc_put64(states[b] + 8, counter.lo + (unsigned)b);
        }
        slice(q, states);
        encrypt(q, keys, rounds);
        unslice(states, q);
        memcpy(out, states, CC_BLOCK * n);
        out += CC_BLOCK * n;
        blocks -= n;
        counter.lo += n;
    }
}

/* The stack of what was called before: not only its arrays, but also what the compiler put there for want of registers. */
__attribute__((noinline)) static void wipe_below(void)
{
    uint8_t below[4096];
    cc_wipe(below, sizeof below);
}

static void keystream(const uint8_t *round_keys, unsigned rounds, cc_counter counter, uint8_t *out, size_t blocks)
{
    make_blocks(round_keys, rounds, counter, out, blocks);
    wipe_below();
}

/* There is no quicker loop than this kernel's own, so the limit is the time of `keystream` without its output. */
static uint64_t aes_limit(const uint8_t *round_keys, unsigned rounds, size_t blocks)
{
    plane keys[CC_MAX_ROUNDS + 1][PLANES], q[PLANES] = {{0}};
    slice_keys(keys, round_keys, rounds);
    for (size_t done = 0; done < blocks; done += AT_ONCE)
        encrypt(q, keys, rounds);
    cc_wipe(keys, sizeof keys);
    return q[0][0];
}

static void forget(void)
{
    cc_clear_sse();
}

const cc_kernel cc_portable = {"portable", expand, keystream, NULL, NULL, forget, aes_limit};
