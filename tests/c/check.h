/* What the programs of this folder that check share: a condition that counts or ends the program, and dice. */
#ifndef CC_CHECK_H
#define CC_CHECK_H

#include "dice.h"

#include <stdio.h>
#include <stdlib.h>

static unsigned long checks;
/* What is being checked, for a failure to name. */
static char now[100];

#define CHECK(condition, ...)                                               \
    do {                                                                    \
        checks++;                                                           \
        if (!(condition)) {                                                 \
            printf("FAILED (%s) line %d: %s: ", now, __LINE__, #condition); \
            printf(__VA_ARGS__);                                            \
            printf("\n");                                                   \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

static void fill(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(dice() >> 20);
}

#endif
