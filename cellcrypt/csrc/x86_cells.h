/* Cells through AES instructions, written once for every vector width: each x86 kernel defines its vectors and includes
 * this file, which has no guard for that reason (it is included once per kernel).
 *
 * What the kernel defines before it includes this:
 *   TARGET               the attribute that switches its instruction set on; LOCAL, the same for inlined functions
 *   vec, LANES           a vector and the number of AES blocks in it
 *   MASKED               1 if there are 32 registers, and loads and stores that can leave octets out; else 0
 *   load, store          unaligned
 *   broadcast(p)         the 16 octets at p in every lane
 *   broadcast64(hi, lo)  the block of two uint64_t, little-endian, in every lane
 *   lanes()              0, 1, 2, ... in the low halves of the lanes
 *   add64, xor, shuffle  by 64-bit elements; of everything; of octets within lanes
 *   enc, enc_last        one AES round
 *   clear_uppers         to be called last
 * and with masks: load_first, store_first, load_rest, store_rest, load_first16, store_first16, rest16; without: last_two,
 * lower_half, upper_half.
 *
 * Rules
 *   - An array of vectors is only indexed by constants, with EACH. Otherwise it would live in memory: 4 times slower, and key
 *     stream would stay on the stack.
 *   - Where loads and stores overlap, the loads come first in the source: a processor holds back a load that overlaps an
 *     earlier store in part.
 *   - What is called `plan` is a constant after inlining. */

#define GROUP 8            /* vectors in flight: AES units take a round in 3 to 5 cycles and begin 1 or 2 in each */
#define WIDTH (16 * LANES) /* octets in a vector */
#define STRETCH 256        /* counters that differ in the lowest octet alone */
#define PAGE 4096          /* octets after which addresses look alike to a load */

/* Straight code where the usual case is: fewer jumps taken, so more of them are foreseen. */
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* In the place of a gap: no payload follows. */
#define NO_MORE ((size_t)-1)

/* Round keys that find a place in registers, AES-128's at best; more would go to the stack, and stay there. */
#ifdef __clang__
#define HELD 6
#else
#define HELD 10
#endif

/* Plans, which may be added up. */
#define KEYS_HELD 1 /* round keys stay in registers from cell to cell (Ice Lake, November 2026: 12 % less per cell) */
#define TABLED 2    /* with the two-round table */
#define CROSSING 4  /* if TABLED: a payload that may reach the edge of its stretch */

/* See `two_rounds`. A vector may begin at any state, so the first ones follow the last ones again. */
typedef struct {
    uint8_t states[16 * STRETCH + WIDTH];
    uint8_t deltas[2 * WIDTH]; /* room for two deltas, each in every lane */
} two_round_table;

/* Octets of key stream that are left over from the payload before. With masks, only the first payload of a call has such a
 * head: from there on vectors run across the ends of payloads, each is XORed into all places where it belongs, and none is made
 * twice. Without, each payload begins with a vector of its own, after its head. */
#if MASKED
typedef vec spare_t; /* the vector that the spare block was made in, and `used` counts in that vector: 1 to WIDTH; the first
                        `used` octets may be text already */
#define SPARE_WIDTH WIDTH
#else
typedef __m128i spare_t; /* the spare block; `used` is 1 to 16 */
#define SPARE_WIDTH 16
#endif

/* Where a kernel is in the key stream, kept in registers over all cells of a call. */
typedef struct {
    const uint8_t *round_keys;
    unsigned rounds;
    vec keys[EACH_MOST], last_key; /* if KEYS_HELD */
    vec counter;              /* unless TABLED: of the next LANES blocks, as little-endian numbers */
    uint64_t hi, lo;          /* if TABLED: the next block's counter, */
    two_round_table *table;   /* the table, */
    vec delta;                /* what it lacks in the stretch of that counter, */
    const uint8_t *states;    /* and, unless CROSSING, where in it the next block's state is */
    spare_t spare;
    size_t used;
#if MASKED
    size_t done;          /* octets of the payload at hand that are done, or the call's head */
    __m128i head;         /* the text of that, */
    size_t head_len;      /* its octets, 0 to 15, */
    uint8_t *head_place;  /* and where it belongs */
#endif
} walk;

/* ---- rounds ---- */

LOCAL void hold_keys(walk *w)
{
    EACH(r, HELD, w->keys[r] = broadcast(w->round_keys + 16 * r););
    w->last_key = broadcast(w->round_keys + 16 * w->rounds);
}

LOCAL void round_of(const walk *w, vec s[EACH_MOST], const int n, const int r, const int plan)
{
    vec k = plan & KEYS_HELD && r < HELD ? w->keys[r] : broadcast(w->round_keys + 16 * r);
    EACH(i, n, s[i] = enc(s[i], k););
}

/* From round `from` to the end. */
LOCAL void finish_rounds(const walk *w, vec s[EACH_MOST], const int n, const int from, const int plan)
{
    EACH(r, 10, if (r >= from) round_of(w, s, n, r, plan););
    if (UNLIKELY(w->rounds > 10)) {
        round_of(w, s, n, 10, plan);
        round_of(w, s, n, 11, plan);
        if (w->rounds > 12) {
            round_of(w, s, n, 12, plan);
            round_of(w, s, n, 13, plan);
        }
    }
    vec k = plan & KEYS_HELD ? w->last_key : broadcast(w->round_keys + 16 * w->rounds);
    EACH(i, n, s[i] = enc_last(s[i], k););
}

/* ---- the states with which the rounds begin; `blocks` of them are used up ---- */

/* SP 800-38A counts big-endian. */
LOCAL vec big_endian(vec v)
{
    return shuffle(v, broadcast64(0x0001020304050607, 0x08090a0b0c0d0e0f));
}

LOCAL void start_plain(walk *w, vec s[EACH_MOST], const int n, size_t blocks, const int plan)
{
    vec k = plan & KEYS_HELD ? w->keys[0] : broadcast(w->round_keys), c = w->counter;
    EACH(i, n, s[i] = xor(big_endian(c), k); c = add64(c, broadcast64(0, LANES)););
    w->counter = add64(w->counter, broadcast64(0, blocks));
}

/* The two-round table (counter-mode caching: Bernstein and Schwabe, INDOCRYPT 2008; Park and Lee, CHES 2018).
 *
 * In a stretch of 256 counters with the same upper octets only octet 15 of the block changes. Round 1 takes octets 0, 5, 10
 * and 15 into its first column, and round 2 takes each octet of that column into another column. Round 2 ends with
 * additions, so the state after it is f(octets 0, 5, 10, 15) + g(all the others). Octets 0, 5 and 10 of the counter stand
 * still between multiples of 2^40 blocks; there, the states of another stretch differ from the table's by one constant
 * block, `delta`. The table is indexed by the counter, which is public. */
LOCAL vec two_rounds(const walk *w, vec counters)
{
    const uint8_t *keys = w->round_keys;
    __asm__ volatile("" : "+r"(keys)); /* these keys are rarely needed: not to be held in registers, then on the stack */
    return enc(enc(xor(big_endian(counters), broadcast(keys)), broadcast(keys + 16)), broadcast(keys + 32));
}

CC_INLINE int table_holds(uint64_t lo, uint64_t blocks)
{
    return !((lo ^ (lo + blocks)) >> 40);
}

/* The states of the stretch that w->lo is in. */
LOCAL void make_table(walk *w, two_round_table *table)
{
    vec c = add64(broadcast64(w->hi, w->lo / STRETCH * STRETCH), lanes());
    for (int x = 0; x < STRETCH; x += GROUP * LANES)
        EACH(i, GROUP, store(table->states + 16 * (x + i * LANES), two_rounds(w, c)); c = add64(c, broadcast64(0, LANES)););
    store(table->states + 16 * STRETCH, load(table->states));
    w->table = table;
    w->delta = broadcast64(0, 0);
}

/* What the states from number x on lack: from number STRETCH on, the second delta. */
LOCAL vec deltas_from(const two_round_table *table, size_t x)
{
    size_t of_first = x < STRETCH ? STRETCH - x : 0;
    return load(table->deltas + 16 * (of_first < LANES ? LANES - of_first : 0));
}

LOCAL void start_tabled(walk *w, vec s[EACH_MOST], const int n)
{
    EACH(i, n, s[i] = xor(load(w->states + i * WIDTH), w->delta););
    w->states += n * WIDTH;
}

LOCAL void start_crossing(walk *w, vec s[EACH_MOST], const int n, size_t blocks)
{
    size_t x = w->lo % STRETCH;
    if (LIKELY(x + (unsigned)(n * LANES) < STRETCH)) {
        EACH(i, n, s[i] = xor(load(w->table->states + 16 * (x + (unsigned)(i * LANES))), w->delta););
    } else { /* into the next stretch, or to its edge: lanes beyond it take the next delta */
        vec beyond = broadcast64(w->hi, (w->lo / STRETCH + 1) * STRETCH);
        vec next = xor(two_rounds(w, beyond), broadcast(w->table->states));
        store(w->table->deltas, w->delta);
        store(w->table->deltas + WIDTH, next);
        EACH(i, n, s[i] = xor(load(w->table->states + 16 * ((x + i * LANES) % STRETCH)), deltas_from(w->table, x + i * LANES)););
        if (x + blocks >= STRETCH)
            w->delta = next;
    }
    w->lo += blocks;
}

LOCAL void make_blocks(walk *w, vec s[EACH_MOST], const int n, size_t blocks, const int plan)
{
    if (plan & CROSSING)
        start_crossing(w, s, n, blocks);
    else if (plan & TABLED)
        start_tabled(w, s, n);
    else
        start_plain(w, s, n, blocks, plan);
    finish_rounds(w, s, n, plan & TABLED ? 3 : 1, plan);
}

/* ---- parts of vectors ---- */

#if MASKED

#define FEWEST 1 /* vectors in the last group of a payload */

LOCAL spare_t load_spare(const uint8_t spare[16])
{
    return broadcast(spare);
}

LOCAL void store_spare(uint8_t spare[16], spare_t v, size_t used)
{
    _mm_storeu_si128((__m128i *)spare, rest16(16, v, (used - 1) / 16 * 16));
}

#else

#define FEWEST 2

LOCAL __m128i load16(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

LOCAL void store16(uint8_t *p, __m128i v)
{
    _mm_storeu_si128((__m128i *)p, v);
}

/* Shuffle orders: an index of 0x80 or more gives zero. */
static const uint8_t slide[48] = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0,    1,    2,    3,    4,    5,    6,    7,
    8,    9,    10,   11,   12,   13,   14,   15,   0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
};

/* Octets from number n on, zeros behind them. */
LOCAL __m128i drop_first(__m128i v, size_t n)
{
    return _mm_shuffle_epi8(v, load16(slide + 16 + n));
}

/* The first n octets, at the end; zeros before them. */
LOCAL __m128i keep_first(__m128i v, size_t n)
{
    return _mm_shuffle_epi8(v, load16(slide + n));
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

#endif

/* ---- payloads: `in` and `out` are where the vectors at hand begin ---- */

/* `first` is what stands at `in`, where that was loaded already: see xor_payload. */
LOCAL vec load_here(const uint8_t *in, vec first)
{
    return MASKED ? load(in) : first;
}

LOCAL void whole_group(walk *w, vec first, const uint8_t *in, uint8_t *out, const int plan)
{
    vec s[EACH_MOST];
    make_blocks(w, s, GROUP, GROUP * LANES, plan);
    EACH(i, GROUP, store(out + i * WIDTH, xor(s[i], i ? load(in + i * WIDTH) : load_here(in, first))););
}

#if MASKED

/* The last n vectors of a payload, `left` octets. What the last vector has more belongs to the next payload, `gap` octets on;
 * gap is NO_MORE behind the last one. */
LOCAL spare_t last_group(walk *w, vec first, const uint8_t *in, uint8_t *out, const int n, size_t left, size_t gap, const int plan)
{
    vec s[EACH_MOST];
    size_t blocks = (size_t)(n * LANES);
    (void)first;
    __asm__ volatile("" : "+r"(blocks)); /* as a constant it would take a register for every n, and keys would go to the stack */
    make_blocks(w, s, n, blocks, plan);
    EACH(i, n - 1, store(out + i * WIDTH, xor(s[i], load(in + i * WIDTH))););
    size_t at = (size_t)(n - 1) * WIDTH, rest = left - at;
    vec last = xor(s[n - 1], load_first(rest, in + at));
    if (LIKELY(gap != NO_MORE)) {
        vec next = xor(s[n - 1], load_rest(rest, in + at + gap));
        store_first(rest, out + at, last);
        store_rest(rest, out + at + gap, next);
    } else
        store_first(rest, out + at, last);
    return last;
}

#else

/* The same, but n is at least 2, so that the last two blocks are both at hand: 16 octets are stored for the tail, over what
 * the last block but one has written. */
LOCAL spare_t last_group(walk *w, vec first, const uint8_t *in, uint8_t *out, const int n, size_t left, size_t gap, const int plan)
{
    vec s[EACH_MOST];
    (void)gap;
    make_blocks(w, s, n, (left + 15) / 16, plan);

    EACH(i, n - 2, store(out + i * WIDTH, xor(s[i], i ? load(in + i * WIDTH) : first)););

    size_t end = left - 16, at = (size_t)(n - 2) * WIDTH; /* 16 octets before the end; the last but one vector */
    __m128i tail = load16(in + end), before, last;        /* before, last: the last two blocks of key stream */
#if LANES == 1
    before = s[n - 2];
    last = s[n - 1];
#else
    /* The last vector holds one block of this payload or two. Where it is one, its store is only a stand-in for the
     * tail's, which covers it. */
    size_t second = at + WIDTH, place = second < end ? second : end;
    vec two = last_two(s[n - 2], s[n - 1], (unsigned)((left - second - 1) / 16));
    __m128i block = _mm_xor_si128(lower_half(s[n - 1]), load16(in + place));
    before = lower_half(two);
    last = upper_half(two);
#endif
    store(out + at, xor(s[n - 2], n > 2 ? load(in + at) : first));
#if LANES == 2
    store16(out + place, block);
#endif
    size_t used = (left - 1) % 16 + 1;
    store16(out + end, _mm_xor_si128(tail, _mm_or_si128(drop_first(before, used), keep_first(last, used))));
    return last;
}

#endif

/* Octets of a payload before its first own vector. */
LOCAL size_t octets_before(const walk *w)
{
#if MASKED
    return w->done;
#else
    return (0 - w->used) % 16;
#endif
}

/* The first vector is a whole one and not the last (CC_SHORTEST sees to that). Without masks, 16 octets are stored for the head
 * before it, over what the first vector, loaded before, is going to write. */
LOCAL void xor_payload(walk *w, const uint8_t *in, uint8_t *out, size_t len, size_t gap, const int plan)
{
    size_t octets = octets_before(w), left = len - octets;
#if MASKED
    vec first = w->counter; /* nobody looks at it: a load here could lie behind a short payload */
#else
    vec first = load(in + octets);
    store16(out, _mm_xor_si128(load16(in), drop_first(w->spare, w->used)));
#endif
    in += octets;
    out += octets;
    for (; left > (GROUP + FEWEST - 1) * WIDTH; left -= GROUP * WIDTH) {
        whole_group(w, first, in, out, plan & ~KEYS_HELD); /* held in two places, keys would go to the stack */
        in += GROUP * WIDTH;
        out += GROUP * WIDTH;
        if (!MASKED)
            first = load(in);
    }
    switch ((left + WIDTH - 1) / WIDTH) { /* FEWEST to GROUP + FEWEST - 1 */
#define LAST(n)                                                       \
    case n:                                                           \
        w->spare = last_group(w, first, in, out, n, left, gap, plan); \
        break;
        LAST(8) LAST(7) LAST(6) LAST(5) LAST(4) LAST(3) LAST(2)
#if MASKED
        LAST(1)
#else
        LAST(9)
#endif
#undef LAST
    default:
        __builtin_unreachable();
    }
    w->used = (left - 1) % SPARE_WIDTH + 1;
#if MASKED
    w->done = WIDTH - w->used;
#endif
}

/* ---- the kernel's functions: one payload, some, many ---- */

#define MANY_PLAN (MASKED ? KEYS_HELD : 0)

/* Its halves are loaded one by one: ctr.c has just stored one of them, and a load of both would wait until that store has
 * left the store buffer (Ice Lake, November 2026: 50 cycles more for a cell). */
LOCAL vec first_counters(const cc_counter *c)
{
    uint64_t lo = c->lo, hi = c->hi;
    __asm__("" : "+r"(lo));
    return add64(broadcast64(hi, lo), lanes());
}

LOCAL walk begin(const cc_stream *s, const uint8_t *in, uint8_t *out)
{
    walk w = {.round_keys = s->round_keys, .rounds = s->rounds, .counter = first_counters(&s->next), .hi = s->next.hi,
              .lo = s->next.lo, .spare = load_spare(s->spare), .used = s->used};
#if MASKED
    w.head_len = w.done = 16 - w.used;
    w.head = _mm_xor_si128(load_first16(w.done, in), rest16(w.done, w.spare, w.used));
    w.head_place = out;
#else
    (void)in;
    (void)out;
#endif
    return w;
}

/* With masks, the call's head. What is loaded behind a masked store waits for that, so a single payload has it stored at its
 * end; over many, it would take a register from the keys. */
LOCAL void put_head(const walk *w)
{
#if MASKED
    store_first16(w->head_len, w->head_place, w->head);
#else
    (void)w;
#endif
}

LOCAL void finish(const walk *w, cc_stream *s)
{
    store_spare(s->spare, w->spare, w->used);
    clear_uppers();
}

/* Where in `room` to put the table. A load that agrees in its last 12 bits with a store just before it waits for that store,
 * so the table's reader must not run behind the payload's writer: it starts three quarters of a page before it. The writer
 * gains on it by the headers, 5 octets a cell, and is met after 600 cells for a while (Ice Lake, November 2026: 250 wire
 * cells up to 7 % quicker). */
CC_INLINE size_t table_place(const uint8_t *room, const uint8_t *out, size_t first_state)
{
    return ((uintptr_t)out + PAGE / 4 * 3 - 16 * first_state - (uintptr_t)room) % PAGE / 64 * 64;
}

TARGET __attribute__((noinline)) static void xor_one(cc_stream *s, const uint8_t *in, uint8_t *out, size_t len)
{
    walk w = begin(s, in, out);
    xor_payload(&w, in, out, len, NO_MORE, 0);
    put_head(&w);
    finish(&w, s);
}

TARGET __attribute__((noinline)) static void xor_some(cc_stream *s, const uint8_t *in, uint8_t *out, size_t stride, size_t len,
                                                      size_t count)
{
    walk w = begin(s, in, out);
    put_head(&w);
    if (MANY_PLAN & KEYS_HELD)
        hold_keys(&w);
    for (; count; count--, in += stride, out += stride)
        xor_payload(&w, in, out, len, count > 1 ? stride - len : NO_MORE, MANY_PLAN);
    finish(&w, s);
}

#if MASKED

/* XOR up to the first counter that is a multiple of LANES: from there on, states lie at multiples of WIDTH in the table, and no
 * load of them touches two lines. Here, the table does not yet count. */
LOCAL void align(walk *w, const uint8_t *in, uint8_t *out)
{
    size_t blocks = (0 - w->lo) % LANES, octets = 16 * blocks;
    if (blocks) {
        vec s[EACH_MOST];
        make_blocks(w, s, 1, blocks, 0);
        store_first(octets, out + w->done, xor(s[0], load_first(octets, in + w->done)));
        w->lo += blocks;
        w->done += octets;
    }
}

#endif

/* Blocks that a payload's own vectors take. */
LOCAL size_t blocks_of(const walk *w, size_t len)
{
    size_t left = len - octets_before(w);
    return MASKED ? (left + WIDTH - 1) / WIDTH * LANES : (left + 15) / 16;
}

/* What a payload asks about edges and prefetching, it asks once: AES units share their ports with plain arithmetic (Ice Lake,
 * December 2026: 40 additions less in a group of AES-NI are 13 ns less in a payload). */
TARGET __attribute__((noinline)) static void xor_many(cc_stream *s, const uint8_t *in, uint8_t *out, size_t stride, size_t len,
                                                      size_t count)
{
    _Alignas(64) uint8_t room[sizeof(two_round_table) + PAGE];
    size_t ahead = stride * count >= PREFETCH_PAYS ? PREFETCH_AHEAD : 0, most = len / 16 + LANES; /* blocks, at most */
    walk w = begin(s, in, out);
    put_head(&w);
#if MASKED
    align(&w, in, out);
#endif
    two_round_table *table = (two_round_table *)(room + table_place(room, out, w.lo % STRETCH));
    make_table(&w, table);
    if (MANY_PLAN & KEYS_HELD)
        hold_keys(&w);
    for (; count; count--, in += stride, out += stride) {
        size_t x = w.lo % STRETCH, gap = count > 1 ? stride - len : NO_MORE;
        if (UNLIKELY(ahead))
            for (size_t at = 0; at < len; at += 64)
                _mm_prefetch((const char *)((uintptr_t)in + ahead + at), _MM_HINT_T0); /* may lie past the buffer */
        if (LIKELY(x + most < STRETCH)) {
            w.states = table->states + 16 * x;
            w.lo += blocks_of(&w, len);
            xor_payload(&w, in, out, len, gap, MANY_PLAN | TABLED);
        } else
            xor_payload(&w, in, out, len, gap, TABLED | CROSSING); /* keys not held a third time */
    }
    finish(&w, s);
    cc_wipe(table, sizeof *table);
}

static void xor_cells(cc_stream *s, const uint8_t *in, uint8_t *out, size_t stride, size_t len, size_t count)
{
    uint64_t blocks = (uint64_t)len * count / 16 + 1; /* at most that */
    if (blocks >= TABLE_PAYS && table_holds(s->next.lo, blocks))
        xor_many(s, in, out, stride, len, count);
    else if (count > 1)
        xor_some(s, in, out, stride, len, count);
    else
        xor_one(s, in, out, len);
}

TARGET static void keystream(const uint8_t *round_keys, unsigned rounds, cc_counter counter, uint8_t *out, size_t blocks)
{
    walk w = {.round_keys = round_keys, .rounds = rounds, .counter = first_counters(&counter)};
    vec s[EACH_MOST];
    for (; blocks >= GROUP * LANES; blocks -= GROUP * LANES, out += GROUP * WIDTH) {
        make_blocks(&w, s, GROUP, GROUP * LANES, 0);
        EACH(i, GROUP, store(out + i * WIDTH, s[i]););
    }
    if (blocks) {
        make_blocks(&w, s, GROUP, GROUP * LANES, 0);
        EACH(i, GROUP, if (blocks > i * LANES) store_blocks(blocks - i * LANES, out + i * WIDTH, s[i]););
    }
    clear_uppers();
}

/* With 16 registers, 14 chains: more would be kept in memory, and the limit would read 30 % high. */
#define CHAINS (MASKED ? 16 : 14)

TARGET static uint64_t aes_limit(const uint8_t *round_keys, unsigned rounds, size_t blocks)
{
    vec s[EACH_MOST], k;
    EACH(i, CHAINS, s[i] = broadcast64(0, i););
    for (size_t done = 0; done < blocks; done += CHAINS * LANES) {
        for (unsigned r = 1; r < rounds; r++) {
            k = broadcast(round_keys + 16 * r);
            EACH(i, CHAINS, s[i] = enc(s[i], k););
        }
        k = broadcast(round_keys + 16 * rounds);
        EACH(i, CHAINS, s[i] = enc_last(s[i], k););
    }
    EACH(i, CHAINS, if (i >= 1) s[0] = xor(s[0], s[i]););
    uint8_t sum[WIDTH];
    store(sum, s[0]);
    clear_uppers();
    return cc_get64(sum);
}
