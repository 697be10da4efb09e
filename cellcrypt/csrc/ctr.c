/* The key stream: where it is, its head, its tail and its carries, written once for all kernels.
 *
 * Rules
 *   - Kernels make blocks; what a block's counter is and how much of it is left is decided here.
 *   - `used` is never 0: the start of a block is kept as the end of the one before it, so there is one way to say it.
 *   - The quick path hands a whole call to the kernel. What it does not take, goes the plain way: short payloads, a
 *     counter that carries out of its low half inside the call, and kernels that have no quick path.
 *
 * Theory: counter mode of NIST SP 800-38A, section 6.5; the counter block is the IV plus the block's number, modulo 2^128. */
#include "kernel.h"

#define CHUNK 64 /* blocks of key stream on the stack on the plain way: 1 KiB */

void cc_wipe(void *p, size_t len)
{
    memset(p, 0, len);
    __asm__ volatile("" : : "r"(p) : "memory");
}

__attribute__((noinline)) void cc_forget(const cc_kernel *kernel)
{
    uint8_t below[CC_FORGOTTEN];
    cc_wipe(below, sizeof below);
    cc_forget_registers(kernel);
}

static cc_counter add(cc_counter a, uint64_t n)
{
    a.lo += n;
    a.hi += a.lo < n;
    return a;
}

static cc_counter sum(cc_counter a, cc_counter b)
{
    a.hi += b.hi;
    return add(a, b.lo);
}

static cc_counter difference(cc_counter a, cc_counter b)
{
    a.hi -= b.hi + (a.lo < b.lo);
    a.lo -= b.lo;
    return a;
}

static int same(cc_counter a, cc_counter b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

/* All 2^128 counters are spent when `next` comes back to the IV; before the first block it stands there too, so this
 * holds only after some key stream was used. */
static void note_end(cc_stream *s)
{
    s->ended = s->used == CC_BLOCK && same(s->next, s->iv);
}

void cc_stream_init(cc_stream *s, const cc_kernel *kernel, const uint8_t *key, size_t key_len, const uint8_t iv[CC_BLOCK])
{
    memset(s, 0, sizeof *s);
    s->kernel = kernel;
    s->rounds = (uint8_t)(key_len / 4 + 6);
    s->used = CC_BLOCK;
    s->iv = (cc_counter){.lo = cc_get64(iv + 8), .hi = cc_get64(iv)};
    s->next = s->iv;
    kernel->expand(s->round_keys, key, key_len);
}

void cc_stream_seek(cc_stream *s, cc_counter block, unsigned within)
{
    s->next = sum(s->iv, block);
    s->used = CC_BLOCK;
    s->ended = 0;
    if (within) {
        s->kernel->keystream(s->round_keys, s->rounds, s->next, s->spare, 1);
        s->next = add(s->next, 1);
        s->used = (uint8_t)within;
    }
}

cc_counter cc_stream_position(const cc_stream *s, unsigned *within, int *ended)
{
    cc_counter blocks = difference(s->next, s->iv);
    *ended = s->ended;
    *within = s->used % CC_BLOCK;
    return *within ? difference(blocks, (cc_counter){.lo = 1}) : blocks;
}

int cc_stream_has(const cc_stream *s, size_t total)
{
    if (s->ended)
        return total == 0;
    cc_counter left = difference(s->iv, s->next);
    if (left.hi || left.lo >> 60 || (s->used == CC_BLOCK && same(s->iv, s->next)))
        return 1; /* 2^64 octets or more */
    return total <= left.lo * CC_BLOCK + (unsigned)(CC_BLOCK - s->used);
}

/* Any length and any carry: key stream of up to CHUNK blocks on the stack, then XOR. */
static void xor_cells_plainly(cc_stream *s, const uint8_t *in, uint8_t *out, size_t stride, size_t len, size_t count)
{
    uint8_t made[CHUNK * CC_BLOCK];
    const uint8_t *from = s->spare + s->used;
    size_t have = CC_BLOCK - (size_t)s->used; /* octets of key stream at `from` */
    size_t left = len * count;                /* octets still to come */
    size_t dirty = 0;

    for (; count; count--, in += stride, out += stride) {
        for (size_t done = 0; done < len;) {
            if (!have) {
                uint64_t to_carry = 0 - s->next.lo; /* 0 stands for 2^64 */
                size_t blocks = (left - 1) / CC_BLOCK + 1;
                if (blocks > CHUNK)
                    blocks = CHUNK;
                if (to_carry && blocks > to_carry)
                    blocks = (size_t)to_carry;
                s->kernel->keystream(s->round_keys, s->rounds, s->next, made, blocks);
                s->next = add(s->next, blocks);
                from = made;
                have = blocks * CC_BLOCK;
                if (dirty < have)
                    dirty = have;
            }
            size_t n = have < len - done ? have : len - done;
            cc_xor_wide(out + done, in + done, from, n);
            done += n;
            left -= n;
            from += n;
            have -= n;
        }
    }
    if (dirty) { /* `have` is below 16 now, since no more blocks were made than needed */
        memcpy(s->spare, from + have - CC_BLOCK, CC_BLOCK);
        cc_wipe(made, dirty);
    }
    s->used = (uint8_t)(CC_BLOCK - have);
}

void cc_xor_cells(cc_stream *s, const uint8_t *in, uint8_t *out, size_t stride, size_t len, size_t count)
{
    if (!count)
        return;
    /* Octets past the spare block, and the blocks they take. A short payload may end before: then it is not quick. */
    size_t past = len * count - (CC_BLOCK - (size_t)s->used);
    uint64_t blocks = ((uint64_t)past - 1) / CC_BLOCK + 1;
    if (len >= CC_SHORTEST && s->kernel->xor_cells && blocks - 1 <= UINT64_MAX - s->next.lo) {
        s->kernel->xor_cells(s, in, out, stride, len, count);
        s->used = (uint8_t)((past - 1) % CC_BLOCK + 1);
        s->next = add(s->next, blocks);
    } else
        xor_cells_plainly(s, in, out, stride, len, count);
    note_end(s);
}

void cc_keystream(cc_stream *s, uint8_t *out, size_t len)
{
    if (!len)
        return;
    memset(out, 0, len);
    cc_xor_cells(s, out, out, len, len, 1);
}

void cc_stream_wipe(cc_stream *s)
{
    cc_wipe(s, sizeof *s);
}
