/* Cells through AES instructions, written once for every vector width: each x86 kernel defines its vectors and includes
 * this file, which has no guard for that reason (it is included once per kernel).
 *
 * What the kernel defines before it includes this:
 *   TARGET            the attribute that switches its instruction set on; LOCAL, the same for inlined functions
 *   vec, LANES        a vector and the number of AES blocks in it
 *   MASKED            1 if loads and stores can leave octets out, else 0
 *   load, store       unaligned
 *   broadcast(p)      the 16 octets at p in every lane
 *   broadcast64(hi, lo)  the block of two uint64_t, little-endian, in every lane
 *   lanes()           0, 1, 2, ... in the low halves of the lanes
 *   add64, xor, shuffle  by 64-bit elements; of everything; of octets within lanes
 *   enc, enc_last     one AES round
 *
 * Rules
 *   - An array of vectors is only indexed by unrolled loops: otherwise it would live in memory (4x slower, and key stream
 *     would stay on the stack).
 *   - Where a load and a store overlap, the load comes first in the source: the processor holds back a load that overlaps
 *     an earlier store in part.
 */

#define GROUP 8                 /* vectors in flight: latency x throughput of the AES unit is 3..8 */
#define WIDTH (16 * LANES)      /* octets in a vector */
#define TABLED 256              /* blocks that differ in the lowest counter octet alone */

#define UNROLL _Pragma("GCC unroll 16")

/* Where a kernel is in the key stream, kept in registers over all cells of a call. */
typedef struct {
    const uint8_t *round_keys;
    unsigned rounds;
    uint64_t hi, lo;      /* the next block's counter */
    vec counter;          /* plain: those of the next LANES blocks, as little-endian numbers */
    const uint8_t *table; /* tabled: see below */
    vec delta;
} walk;

LOCAL vec round_key(const walk *w, unsigned r)
{
    return broadcast(w->round_keys + 16 * r);
}

/* SP 800-38A counts big-endian. */
LOCAL vec big_endian(vec v)
{
    return shuffle(v, broadcast64(0x0001020304050607, 0x08090a0b0c0d0e0f));
}

/* Rounds `from`.. to the end. */
LOCAL void finish_rounds(const walk *w, vec s[GROUP + 1], const int n, const unsigned from)
{
    UNROLL for (unsigned r = from; r < 10; r++) {
        vec k = round_key(w, r);
        UNROLL for (int i = 0; i < n; i++) s[i] = enc(s[i], k);
    }
    if (w->rounds > 10) {
        UNROLL for (unsigned r = 10; r < 12; r++) {
            vec k = round_key(w, r);
            UNROLL for (int i = 0; i < n; i++) s[i] = enc(s[i], k);
        }
        if (w->rounds > 12) {
            UNROLL for (unsigned r = 12; r < 14; r++) {
                vec k = round_key(w, r);
                UNROLL for (int i = 0; i < n; i++) s[i] = enc(s[i], k);
            }
        }
    }
    vec k = round_key(w, w->rounds);
    UNROLL for (int i = 0; i < n; i++) s[i] = enc_last(s[i], k);
}

/* ---- the states with which the rounds begin ---- */

/* The counters themselves, round key 0 added; `blocks` of them are used up. */
LOCAL void start_plain(walk *w, vec s[GROUP + 1], const int n, size_t blocks)
{
    vec k = round_key(w, 0), c = w->counter;
    UNROLL for (int i = 0; i < n; i++) {
        s[i] = xor(big_endian(c), k);
        c = add64(c, broadcast64(0, LANES));
    }
    w->counter = add64(w->counter, broadcast64(0, blocks));
}

/* The two-round table (counter-mode caching: Bernstein and Schwabe, INDOCRYPT 2008; Park and Lee, CHES 2018).
 *
 * In a stretch of 256 counters with the same upper octets only octet 15 of the block changes. Round 1 takes octets 0, 5, 10
 * and 15 into its first column, and round 2 takes each octet of that column into another column. Round 2 ends with
 * additions, so the state after it is f(octets 0, 5, 10, 15) + g(all the others). Octets 0, 5 and 10 of the counter stand
 * still below 2^40 blocks; up to there, the states of another stretch differ from the table's by one constant block,
 * `delta`. The table is indexed by the counter, which is public. */
LOCAL vec two_rounds(const walk *w, vec counters)
{
    vec s = xor(big_endian(counters), round_key(w, 0));
    return enc(enc(s, round_key(w, 1)), round_key(w, 2));
}

LOCAL int table_holds(uint64_t lo, uint64_t blocks)
{
    return !((lo ^ (lo + blocks)) >> 40);
}

/* 256 states from the stretch of w->lo, and once more the first vector, so that a vector may begin at any of them. */
LOCAL void make_table(walk *w, uint8_t table[16 * TABLED + WIDTH])
{
    vec c = add64(broadcast64(w->hi, w->lo / TABLED * TABLED), lanes());
    for (int x = 0; x < TABLED; x += GROUP * LANES)
        UNROLL for (int i = 0; i < GROUP; i++) {
            store(table + 16 * (x + i * LANES), two_rounds(w, c));
            c = add64(c, broadcast64(0, LANES));
        }
    store(table + 16 * TABLED, load(table));
    w->table = table;
    w->delta = xor(w->delta, w->delta);
}

LOCAL void start_tabled(walk *w, vec s[GROUP + 1], const int n, size_t blocks)
{
    size_t x = w->lo % TABLED;
    if (x + (unsigned)(n * LANES) < TABLED) {
        UNROLL for (int i = 0; i < n; i++) s[i] = xor(load(w->table + 16 * (x + (unsigned)(i * LANES))), w->delta);
    } else { /* into the next stretch, or to its edge */
        vec beyond = broadcast64(w->hi, (w->lo / TABLED + 1) * TABLED);
        vec delta = xor(two_rounds(w, beyond), broadcast(w->table));
        vec change = xor(delta, w->delta);
        UNROLL for (int i = 0; i < n; i++) {
            size_t at = x + (unsigned)(i * LANES);
            s[i] = xor(load(w->table + 16 * (at % TABLED)), xor(w->delta, from_lane(TABLED - (int)at, change)));
        }
        if (x + blocks >= TABLED)
            w->delta = delta;
    }
    w->lo += blocks;
}

LOCAL void make_states(walk *w, vec s[GROUP + 1], const int n, size_t blocks, const int tabled)
{
    if (tabled) {
        start_tabled(w, s, n, blocks);
        finish_rounds(w, s, n, 3);
    } else {
        start_plain(w, s, n, blocks);
        finish_rounds(w, s, n, 1);
    }
}

/* ---- payloads ---- */

/* GROUP whole vectors; `first` is the first of them, loaded by the caller before it stored the head. */
LOCAL void whole_group(walk *w, const uint8_t *in, uint8_t *out, vec first, const int tabled)
{
    vec s[GROUP + 1];
    make_states(w, s, GROUP, GROUP * LANES, tabled);
    store(out, xor(s[0], first));
    UNROLL for (int i = 1; i < GROUP; i++) store(out + i * WIDTH, xor(s[i], load(in + i * WIDTH)));
}

#if MASKED

/* The spare block is kept inside the vector it was made in, `used` (1..WIDTH) counts in that vector. */
typedef vec spare_t;
#define SPARE_WIDTH WIDTH

/* The last n vectors of a payload, `left` octets, of which the last vector may be only part. */
LOCAL spare_t last_group(walk *w, const uint8_t *in, uint8_t *out, vec first, const int n, size_t left, const int tabled)
{
    vec s[GROUP + 1];
    make_states(w, s, n, (left + 15) / 16, tabled);
    store(out, xor(s[0], first));
    UNROLL for (int i = 1; i < n - 1; i++) store(out + i * WIDTH, xor(s[i], load(in + i * WIDTH)));
    size_t at = (size_t)(n - 1) * WIDTH;
    s[n - 1] = xor(s[n - 1], load_first(left - at, in + at));
    store_first(left - at, out + at, s[n - 1]);
    return s[n - 1];
}

LOCAL void xor_head(const uint8_t *in, uint8_t *out, size_t head, spare_t spare, size_t used)
{
    store_first16(head, out, _mm_xor_si128(load_first16(head, in), rest16(head, spare, used)));
}

#else

typedef __m128i spare_t;
#define SPARE_WIDTH 16

LOCAL __m128i octets_from(__m128i v, int n)
{
    const __m128i count = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm_shuffle_epi8(v, _mm_add_epi8(count, _mm_set1_epi8((char)n)));
}

/* Octets from number n on, zeros behind them; a shuffle index of 0x80 or more gives zero. */
LOCAL __m128i drop_first(__m128i v, size_t n)
{
    return octets_from(v, 0x70 + (int)n);
}

/* The first n octets, at the end; zeros before them. */
LOCAL __m128i keep_first(__m128i v, size_t n)
{
    return octets_from(v, (int)n - 16);
}

LOCAL __m128i load16(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

LOCAL void store16(uint8_t *p, __m128i v)
{
    _mm_storeu_si128((__m128i *)p, v);
}

LOCAL spare_t load_spare(const uint8_t spare[16])
{
    return load16(spare);
}

LOCAL void store_spare(uint8_t spare[16], spare_t v, size_t used)
{
    (void)used;
    store16(spare, v);
}

/* No masks: 16 octets are stored at either end of the payload, over what whole blocks wrote or will write there. */
LOCAL void xor_head(const uint8_t *in, uint8_t *out, size_t head, spare_t spare, size_t used)
{
    (void)head;
    store16(out, _mm_xor_si128(load16(in), drop_first(spare, used)));
}

LOCAL spare_t last_group(walk *w, const uint8_t *in, uint8_t *out, vec first, const int n, size_t left, const int tabled)
{
    vec s[GROUP + 1];
    make_states(w, s, n, (left + 15) / 16, tabled);
    if (n > 2)
        store(out, xor(s[0], first));
    UNROLL for (int i = 1; i < n - 2; i++) store(out + i * WIDTH, xor(s[i], load(in + i * WIDTH)));

    size_t end = left - 16, at = (size_t)(n - 2) * WIDTH; /* octet 16 before the end; the last but one vector */
    size_t used = (left - 1) % 16 + 1;
    __m128i tail = load16(in + end);
    vec whole = n > 2 ? load(in + at) : first;
    __m128i before, last; /* the last two blocks of key stream */
#if LANES == 1
    before = s[n - 2];
    last = s[n - 1];
    store(out + at, xor(whole, before));
#else
    /* The last vector holds one block of this payload or two. Where there is one, its store is only a stand-in for the
     * tail's, which covers it. */
    int two = left - at - WIDTH > 16;
    size_t place = two ? at + WIDTH : end;
    __m128i lower = _mm256_castsi256_si128(s[n - 1]), upper = _mm256_extracti128_si256(s[n - 1], 1);
    __m128i both = _mm_set1_epi32(-two), block = load16(in + place);
    before = _mm_blendv_epi8(_mm256_extracti128_si256(s[n - 2], 1), lower, both);
    last = _mm_blendv_epi8(lower, upper, both);
    store(out + at, xor(whole, s[n - 2]));
    store16(out + place, _mm_xor_si128(block, lower));
#endif
    store16(out + end, _mm_xor_si128(tail, _mm_or_si128(drop_first(before, used), keep_first(last, used))));
    return last;
}

#endif

LOCAL void xor_payloads(walk *w, cc_stream *s, const uint8_t *in, uint8_t *out, size_t stride, size_t len, size_t count,
                        const int tabled)
{
    spare_t spare = load_spare(s->spare);
    size_t used = s->used;
    for (; count; count--, in += stride, out += stride) {
        size_t head = (0 - used) % 16, left = len - head;
        const uint8_t *from = in + head;
        uint8_t *to = out + head;
        vec first = load(from);
        xor_head(in, out, head, spare, used);

        size_t vectors = (left + WIDTH - 1) / WIDTH;
        for (; vectors > GROUP + 1; vectors -= GROUP) {
            whole_group(w, from, to, first, tabled);
            from += GROUP * WIDTH;
            to += GROUP * WIDTH;
            left -= GROUP * WIDTH;
            first = load(from);
        }
        switch (vectors) { /* two at least, see CC_SHORTEST */
#define LAST(n)                                                    \
    case n:                                                        \
        spare = last_group(w, from, to, first, n, left, tabled);   \
        break;
            LAST(8) LAST(7) LAST(9) LAST(6) LAST(5) LAST(4) LAST(3) LAST(2)
#undef LAST
        default:
            __builtin_unreachable();
        }
        used = (left - 1) % SPARE_WIDTH + 1;
    }
    store_spare(s->spare, spare, used);
}

TARGET static void xor_cells_tabled(cc_stream *s, const uint8_t *in, uint8_t *out, size_t stride, size_t len, size_t count)
{
    _Alignas(64) uint8_t table[16 * TABLED + WIDTH];
    walk w = {.round_keys = s->round_keys, .rounds = s->rounds, .hi = s->next.hi, .lo = s->next.lo};
    make_table(&w, table);
    xor_payloads(&w, s, in, out, stride, len, count, 1);
    cc_wipe(table, sizeof table);
}

TARGET static void xor_cells(cc_stream *s, const uint8_t *in, uint8_t *out, size_t stride, size_t len, size_t count)
{
    uint64_t blocks = (uint64_t)len * count / 16 + 1; /* at most that */
    if (blocks >= TABLE_PAYS && table_holds(s->next.lo, blocks)) {
        xor_cells_tabled(s, in, out, stride, len, count);
        return;
    }
    walk w = {.round_keys = s->round_keys, .rounds = s->rounds};
    w.counter = add64(broadcast64(s->next.hi, s->next.lo), lanes());
    xor_payloads(&w, s, in, out, stride, len, count, 0);
}

TARGET static void keystream(const uint8_t *round_keys, unsigned rounds, cc_counter counter, uint8_t *out, size_t blocks)
{
    walk w = {.round_keys = round_keys, .rounds = rounds};
    w.counter = add64(broadcast64(counter.hi, counter.lo), lanes());
    vec s[GROUP + 1];
    for (; blocks >= GROUP * LANES; blocks -= GROUP * LANES, out += GROUP * WIDTH) {
        make_states(&w, s, GROUP, GROUP * LANES, 0);
        UNROLL for (int i = 0; i < GROUP; i++) store(out + i * WIDTH, s[i]);
    }
    if (blocks) {
        make_states(&w, s, GROUP, GROUP * LANES, 0);
        UNROLL for (int i = 0; i < GROUP; i++) {
            if (blocks >= (unsigned)((i + 1) * LANES))
                store(out + i * WIDTH, s[i]);
            else if (blocks > (unsigned)(i * LANES))
                store_blocks(blocks - (unsigned)(i * LANES), out + i * WIDTH, s[i]);
        }
    }
}

TARGET static uint64_t aes_limit(const uint8_t *round_keys, unsigned rounds, size_t blocks)
{
    walk w = {.round_keys = round_keys, .rounds = rounds};
    vec s[16];
    UNROLL for (int i = 0; i < 16; i++) s[i] = broadcast64(0, (unsigned)i);
    for (size_t done = 0; done < blocks; done += 16 * LANES) {
        for (unsigned r = 1; r < rounds; r++) {
            vec k = round_key(&w, r);
            UNROLL for (int i = 0; i < 16; i++) s[i] = enc(s[i], k);
        }
        vec k = round_key(&w, rounds);
        UNROLL for (int i = 0; i < 16; i++) s[i] = enc_last(s[i], k);
    }
    UNROLL for (int i = 1; i < 16; i++) s[0] = xor(s[0], s[i]);
    uint8_t sum[WIDTH];
    store(sum, s[0]);
    return cc_get64(sum);
}
