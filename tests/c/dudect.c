/* A statistical test that a kernel's time does not depend on secrets, in the manner of dudect (Reparaz, Balasch and
 * Verbauwhede, "Dude, is my code constant time?", DATE 2017).
 *
 * Two classes of input in random order: class 0 has one fixed key and payload, class 1 random ones. Each measurement is
 * the time stamp counter around a few cells, with the key schedule made outside and every octet copied to the same place
 * first. Welch's t over all measurements and over the quickest 90, 70 and 50 % of them; a |t| above 10 that grows with the
 * number of measurements is a leak, below 4.5 there is no sign of one.
 *
 * Usage: dudect KERNEL WHAT SECONDS. WHAT: cell, batch, keystream, expand, or one of the planted leaks `branch` (an exit at the
 * first octet that is 0) and `multiple` (the time of a few more octets for one value of the first).
 * Prints the number of measurements and the greatest |t|. */
#define _GNU_SOURCE
#include "cellcrypt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if !defined(__x86_64__)
int main(void)
{
    fprintf(stderr, "dudect: needs the time stamp counter of x86-64\n");
    return 3;
}
#else
#include "dice.h"

#include <x86intrin.h>

enum { LEN = 509, BATCH = 40, ROUND = 4096, CROPS = 4 };
static const double keep[CROPS] = {1, 0.9, 0.7, 0.5};

/* Mean and variance as they come (Knuth, TAOCP, volume 2, section 4.2.2, equations 15 and 16). */
typedef struct {
    double n[2], mean[2], sum[2];
} welch;

static void add(welch *w, int class, double x)
{
    double before = x - w->mean[class];
    w->n[class]++;
    w->mean[class] += before / w->n[class];
    w->sum[class] += before * (x - w->mean[class]);
}

static double t_of(const welch *w)
{
    if (w->n[0] < 1000 || w->n[1] < 1000)
        return 0;
    double variance = w->sum[0] / (w->n[0] - 1) / w->n[0] + w->sum[1] / (w->n[1] - 1) / w->n[1];
    return variance > 0 ? fabs(w->mean[0] - w->mean[1]) / sqrt(variance) : 0;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The thing that is measured. */
typedef struct {
    cc_stream s;
    uint8_t key[32], payload[BATCH * LEN], out[BATCH * LEN];
} subject;

static volatile uint8_t sink;

static void leak_branch(const uint8_t *p)
{
    size_t i = 0;
    while (i < LEN && p[i])
        i++;
    sink = (uint8_t)i;
}

static void leak_multiple(const uint8_t *p)
{
    for (size_t i = 0; i < 200u + (p[0] == 0x5a) * 20u; i++)
        sink = p[i % LEN];
}

static void work(subject *x, const cc_kernel *k, const char *what)
{
    switch (*what) {
    case 'c':
        cc_xor_cells(&x->s, x->payload, x->payload, LEN, LEN, 1);
        break;
    case 'k':
        cc_keystream(&x->s, x->out, 16 * 70);
        break;
    case 'e':
        k->expand(x->s.round_keys, x->key, 32);
        break;
    case 'm':
        leak_multiple(x->payload);
        break;
    default:
        if (!strcmp(what, "batch"))
            cc_xor_cells(&x->s, x->payload, x->payload, LEN, LEN, BATCH);
        else
            leak_branch(x->payload);
    }
}

static uint64_t measure(subject *x, const cc_kernel *k, const char *what)
{
    unsigned core;
    _mm_lfence();
    uint64_t start = __rdtsc();
    _mm_lfence();
    work(x, k, what);
    uint64_t end = __rdtscp(&core);
    _mm_lfence();
    return end - start;
}

int main(int argc, char **argv)
{
    const cc_kernel *const *k = cc_kernels;
    while (argc == 4 && *k && strcmp((*k)->name, argv[1]))
        k++;
    if (argc != 4 || !*k || !cc_kernel_usable(*k)) {
        fprintf(stderr, "usage: dudect KERNEL cell|batch|keystream|expand|branch|multiple SECONDS; a kernel that runs here\n");
        return 3;
    }
    double seconds = atof(argv[3]);
    subject *x = aligned_alloc(64, (sizeof *x + 63) / 64 * 64);
    static uint8_t inputs[ROUND][32 + LEN], fixed[32 + LEN];
    static uint64_t ticks[ROUND], sorted[ROUND];
    static uint8_t class[ROUND];
    uint8_t iv[16] = {0};
    welch all[CROPS] = {{{0}, {0}, {0}}};
    double limits[CROPS] = {0};
    memset(fixed, 0x5a, sizeof fixed);

    time_t begin = time(NULL);
    for (int round = 0; round < 3 || difftime(time(NULL), begin) <= seconds; round++) {
        for (int i = 0; i < ROUND; i++) {
            class[i] = dice() >> 40 & 1;
            for (size_t j = 0; j < sizeof fixed; j++)
                inputs[i][j] = class[i] ? (uint8_t)(dice() >> 30) : (dice(), fixed[j]);
        }
        for (int i = 0; i < ROUND; i++) {
            memcpy(x->key, inputs[i], 32);
            for (int cell = 0; cell < BATCH; cell++)
                memcpy(x->payload + cell * LEN, inputs[i] + 32, LEN);
            cc_stream_init(&x->s, *k, x->key, 32, iv);
            ticks[i] = measure(x, *k, argv[2]);
        }
        if (round == 0) { /* this round warms up, and says where to crop */
            memcpy(sorted, ticks, sizeof ticks);
            qsort(sorted, ROUND, sizeof *sorted, by_value);
            for (int c = 0; c < CROPS; c++)
                limits[c] = c ? (double)sorted[(int)(keep[c] * (ROUND - 1))] : INFINITY;
            continue;
        }
        for (int i = 0; i < ROUND; i++)
            for (int c = 0; c < CROPS; c++)
                if ((double)ticks[i] <= limits[c])
                    add(&all[c], class[i], (double)ticks[i]);
    }
    double most = 0;
    for (int c = 0; c < CROPS; c++)
        if (t_of(&all[c]) > most)
            most = t_of(&all[c]);
    printf("%.0f %.2f\n", all[0].n[0] + all[0].n[1], most);
    free(x);
    return 0;
}
#endif
