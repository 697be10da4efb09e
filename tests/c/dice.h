/* Random numbers that are the same in every run (xorshift: Marsaglia, Journal of Statistical Software 8, number 14). */
#ifndef CC_DICE_H
#define CC_DICE_H

#include <stdint.h>

static uint64_t dice_state = 0x9e3779b97f4a7c15;

static uint64_t dice(void)
{
    dice_state ^= dice_state << 13;
    dice_state ^= dice_state >> 7;
    dice_state ^= dice_state << 17;
    return dice_state;
}

#endif
