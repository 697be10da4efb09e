/* Runs the core under valgrind's memcheck with every secret marked as undefined: memcheck then reports each jump and each
 * address that depends on one (Langley's ctgrind). Key, payload, and by that round keys, key stream and output.
 *
 * Usage: valgrind --error-exitcode=9 ctgrind KERNEL [branch|index]
 * The second argument plants a leak. Ends with 3 where valgrind is not there or marks do not travel to the output. */
#include "cellcrypt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/memcheck.h>

#define ROOM (300 * 514 + 64)

static uint8_t in[ROOM], out[ROOM];
static volatile uint8_t sink;
static const volatile uint8_t lut[256] = {1, 2, 3};

static void secret(void *p, size_t n)
{
    (void)VALGRIND_MAKE_MEM_UNDEFINED(p, n);
}

/* What memcheck would say of one octet, without making it say so. */
static int is_secret(const uint8_t *p)
{
    uint8_t bits = 0;
    return VALGRIND_GET_VBITS(p, &bits, 1) == 1 && bits == 0xff;
}

static void expect(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "ctgrind: %s\n", what);
        exit(3);
    }
}

static void use(cc_stream *s)
{
    static const size_t lens[] = {1, 13, 15, 16, 79, 80, 81, 96, 508, 509, 512, 1100, 4099};
    for (size_t l = 0; l < sizeof lens / sizeof *lens; l++) {
        secret(in, lens[l]);
        cc_xor_cells(s, in, in, lens[l], lens[l], 1);
        cc_xor_cells(s, in, out, lens[l], lens[l], 1);
        expect(is_secret(out) && is_secret(in + lens[l] - 1), "the output counts as public");
    }
    /* few cells, many cells (a kernel may then use a table), and cells with a header, which stays public */
    static const size_t counts[] = {2, 17, 300};
    for (size_t c = 0; c < 3; c++) {
        secret(in, ROOM);
        for (size_t cell = 0; cell < counts[c]; cell++)
            memset(in + 514 * cell, 1, 5);
        cc_xor_cells(s, in + 5, in + 5, 514, 509, counts[c]);
        expect(!is_secret(in + 4) && is_secret(in + 5) && !is_secret(in + 514), "a header counts as secret");
    }
    cc_keystream(s, out, 700);
    cc_xor_bytes(out, in, out, 509);
    cc_xor_words(out, in, out, 509);
    cc_xor_wide(out, in, out, 509);
}

static void go_everywhere(cc_stream *s)
{
    static const cc_counter places[] = {{0, 0}, {UINT64_MAX - 20, 0}, {255, 7}, {(UINT64_C(1) << 40) - 300, 0}, {UINT64_MAX - 9999, UINT64_MAX}};
    for (size_t p = 0; p < sizeof places / sizeof *places; p++)
        for (unsigned within = 0; within < 16; within += 5) {
            unsigned at;
            int ended;
            cc_stream_seek(s, places[p], within);
            use(s);
            cc_stream_position(s, &at, &ended);
            expect(at < 16 && !ended && cc_stream_has(s, 3), "the position is lost");
        }
}

int main(int argc, char **argv)
{
    const char *leak = argc > 2 ? argv[2] : "";
    const cc_kernel *const *k = cc_kernels;
    while (argc > 1 && *k && strcmp((*k)->name, argv[1]))
        k++;
    expect(argc > 1 && *k && cc_kernel_usable(*k), "there is no such kernel here");
    expect(RUNNING_ON_VALGRIND, "valgrind is not running this");
    for (size_t key_len = 16; key_len <= (*leak ? 16 : 32); key_len += 8) {
        cc_stream *s = aligned_alloc(64, sizeof *s);
        uint8_t key[32] = {1, 2, 3}, iv[16] = {0};
        secret(key, sizeof key);
        cc_stream_init(s, *k, key, key_len, iv);
        expect(is_secret(s->round_keys) && is_secret(s->round_keys + 16 * (key_len / 4 + 7) - 1), "round keys count as public");
        go_everywhere(s);
        cc_aes_limit(*k, s->round_keys, s->rounds, 640);
        cc_stream_wipe(s);
        expect(!is_secret(s->round_keys) && !is_secret(s->spare), "the stream was not wiped");
        free(s);
    }
    if (!strcmp(leak, "branch") && out[0] == 7)
        sink = 1;
    if (!strcmp(leak, "index"))
        sink = lut[out[0]];
    return 0;
}
