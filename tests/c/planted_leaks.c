/* Kernel code with leaks planted in it, and some without: tests/proofs/test_machine_code.py must find each leak_* and
 * nothing in any sound_*. Built as a library beside a whole kernel, whose helpers it uses. */
#include "../../cellcrypt/csrc/kernel_vaes512.c"

/* What taint.py takes for granted about cc_stream. */
_Static_assert(offsetof(cc_stream, round_keys) == 0 && offsetof(cc_stream, spare) + CC_BLOCK == 256, "STREAMS of taint.py");
_Static_assert(offsetof(cc_stream, next) == 256 && sizeof(cc_counter) == 16, "STREAMS of taint.py");
_Static_assert(16 * TABLED + WIDTH <= 16 * 256 + 64, "ARRAY of taint.py");

#define SEEN TARGET __attribute__((visibility("default"), noinline))
#define CELLS cc_stream *s, const uint8_t *in, uint8_t *out, size_t stride, size_t len, size_t count
#define NEVER_A_CMOV() __asm__ volatile("" : : : "memory")

static const uint8_t lut[256] = {1, 2, 3};

SEEN void leak_branch_on_key_stream(CELLS)
{
    xor_cells(s, in, out, stride, len, count);
    if (s->spare[0] & 1) {
        NEVER_A_CMOV();
        out[0] = 0;
    }
}

SEEN void leak_early_exit_on_payload(CELLS)
{
    for (size_t i = 0; i < len; i++) {
        if (in[i] == out[i])
            break;
        NEVER_A_CMOV();
        out[i] = 0;
    }
}

SEEN void leak_table_index(CELLS)
{
    out[0] = lut[s->round_keys[3]];
}

SEEN void leak_table_index_from_vector(CELLS)
{
    vec v = enc(load(in), broadcast(s->round_keys));
    out[0] = lut[(uint8_t)_mm_cvtsi128_si32(_mm512_castsi512_si128(v))];
}

SEEN void leak_gather(CELLS)
{
    vec v = enc(load(in), broadcast(s->round_keys));
    store(out, _mm512_i32gather_epi32(_mm512_and_si512(v, _mm512_set1_epi32(63)), lut, 1));
}

SEEN void leak_vector_compare(CELLS)
{
    vec v = enc(load(in), broadcast(s->round_keys));
    if (_mm512_test_epi8_mask(v, v) == 5) {
        NEVER_A_CMOV();
        out[0] = 0;
    }
}

SEEN void leak_stack(CELLS)
{
    volatile uint8_t kept[64];
    kept[7] = s->spare[1];
    out[0] = lut[kept[7]];
}

SEEN void leak_array(CELLS)
{
    uint8_t kept[64];
    for (size_t i = 0; i < 64; i += len) {
        kept[i] = in[i];
        NEVER_A_CMOV();
        __asm__ volatile("" : : "r"(kept) : "memory");
    }
    out[0] = lut[kept[count & 63]];
}

SEEN void leak_division(CELLS)
{
    out[0] = (uint8_t)(in[0] / (s->round_keys[5] | 1u));
}

SEEN void leak_count(CELLS)
{
    __asm__ volatile("rep stosb" : "+D"(out), "+c"(*(size_t[]){in[0]}) : "a"(0) : "memory");
}

SEEN void leak_into_public_part(CELLS)
{
    s->next.lo = s->round_keys[0];
}

SEEN void sound_selection(CELLS)
{
    uint8_t mask = (uint8_t)-(s->spare[0] & 1);
    out[0] = (uint8_t)((in[0] & mask) | (in[1] & ~mask));
    unsigned chosen = in[4], other = in[5];
    __asm__("cmpb %2, %3\n\tcmovb %1, %0" : "+r"(chosen) : "r"(other), "r"(in[2]), "r"(in[3]) : "cc");
    out[1] = (uint8_t)chosen;
}

SEEN void sound_counter_index(CELLS)
{
    out[0] = in[0] ^ lut[s->next.lo % 256];
    if (s->used == 16 && count > 3) {
        NEVER_A_CMOV();
        out[1] = lut[s->rounds];
    }
}

SEEN void sound_kernel(CELLS)
{
    xor_cells(s, in, out, stride, len, count);
}
