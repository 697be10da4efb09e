/* How quick each kernel is as this program was compiled: nanoseconds for one cell a call and for one of 1,000 in a batch,
 * the least of many rounds. Usage: speed; prints "kernel one batch" a line. Only ratios on one machine mean anything. */
#define _GNU_SOURCE
#include "cellcrypt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CELLS = 1000, HEADER = 5, LEN = 509, ROUNDS = 40 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(void)
{
    static uint8_t wire[CELLS * (HEADER + LEN)];
    uint8_t key[16] = {1}, iv[16] = {0};
    cc_stream *s = aligned_alloc(64, sizeof *s);
    for (const cc_kernel *const *k = cc_kernels; *k; k++) {
        double best[2] = {1e300, 1e300};
        if (!cc_kernel_usable(*k))
            continue;
        cc_stream_init(s, *k, key, sizeof key, iv);
        for (int round = 0; round < ROUNDS; round++) {
            double start = now();
            for (int i = 0; i < CELLS; i++) {
                uint8_t *payload = wire + i % 64 * (HEADER + LEN) + HEADER;
                cc_xor_cells(s, payload, payload, LEN, LEN, 1);
            }
            double middle = now();
            cc_xor_cells(s, wire + HEADER, wire + HEADER, HEADER + LEN, LEN, CELLS);
            double times[2] = {(middle - start) / CELLS, (now() - middle) / CELLS};
            for (int i = 0; i < 2; i++)
                if (times[i] < best[i])
                    best[i] = times[i];
        }
        printf("%s %.2f %.2f\n", (*k)->name, best[0], best[1]);
    }
    free(s);
    return 0;
}
