/* Counter Galois Onion (Tor proposal 359): ET, PRF, UIV+, update, and what relay and client do with them.
 *
 * Names are the proposal's. UIV+ is a wide-block cipher on X_L | X_R, 16 and 493 octets, with keys J and S and the tweak
 * H = T' | command:
 *
 *     encrypt   Y_L = ET_J(H | X_R; X_L)          Y_R = X_R ^ PRF_S(Y_L, t = 0)
 *     decrypt   X_R = Y_R ^ PRF_S(Y_L, t = 0)     X_L = ET_J^-1(H | X_R; Y_L)
 *
 * Encryption can't be tampered with, decryption can: so relays encrypt and clients decrypt, in both directions. Y_L of
 * one cell is T' of the next, so that a changed cell spoils all that follow it.
 *
 * One AES schedule, 32 powers and 16 octets of hash key are everything that a cell needs: no call allocates, and what the
 * keys were is overwritten when they roll.
 */
#include "cgo.h"
#include "kernel.h"

static cc_counter load_counter(const uint8_t block[CC_BLOCK])
{
    return (cc_counter){.lo = cc_get64(block + 8), .hi = cc_get64(block)};
}

static void add_block(uint8_t *x, const uint8_t *y)
{
    uint64_t a[2], b[2];
    memcpy(a, x, CC_BLOCK);
    memcpy(b, y, CC_BLOCK);
    a[0] ^= b[0];
    a[1] ^= b[1];
    memcpy(x, a, CC_BLOCK);
}

/* Constant time: whether two blocks are the same. */
static int same_block(const uint8_t *x, const uint8_t *y)
{
    uint64_t a[2], b[2];
    memcpy(a, x, CC_BLOCK);
    memcpy(b, y, CC_BLOCK);
    return ((a[0] ^ b[0]) | (a[1] ^ b[1])) == 0;
}

/* ET, the tweakable block cipher, for X_L with X_R as the rest of the tweak: E(x ^ u) ^ u, u the tweak's POLYVAL. */
static void et(const cc_cgo *c, uint8_t *payload, uint8_t command, const uint8_t tag[CC_CGO_TAG])
{
    uint8_t u[CC_BLOCK];
    c->polyval->tweak(u, c->powers, tag, command, payload + CC_CGO_TAG);
    add_block(payload, u);
    (c->role == CC_CGO_RELAY ? c->block->encrypt : c->block->decrypt)(c->j, c->s.rounds, payload, payload);
    add_block(payload, u);
}

/* PRF: AES-CTR of S from the counter that is the input's POLYVAL without its lowest six bits, plus 31 t. At most 31 + 7
 * blocks follow, so no carry leaves those six bits. Unlike a position in a stream, this counter is a secret: the kernels'
 * own calls take it without looking, while cc_xor_cells would ask whether it carries. */
static cc_counter prf(const cc_cgo *c, const uint8_t input[CC_CGO_TAG], unsigned t)
{
    uint8_t u[CC_BLOCK];
    c->polyval->product(u, c->s_hash, input);
    cc_counter start = load_counter(u);
    start.lo = (start.lo & ~(uint64_t)63) + CC_CGO_PRF_T1 * t;
    return start;
}

static void prf_into_rest(cc_cgo *c, uint8_t *payload, const uint8_t y_l[CC_CGO_TAG])
{
    uint8_t *rest = payload + CC_CGO_TAG, made[CC_CGO_PRF_T1 * CC_BLOCK];
    c->s.next = prf(c, y_l, 0);
    if (c->kernel->xor_one) {
        c->kernel->xor_one(&c->s, rest, rest, CC_CGO_REST);
        return;
    }
    c->kernel->keystream(c->s.round_keys, c->s.rounds, c->s.next, made, CC_CGO_PRF_T1);
    cc_xor_wide(rest, rest, made, CC_CGO_REST);
    cc_wipe(made, sizeof made);
}

/* Y_L of this cell becomes T'. */
static void uiv_encrypt(cc_cgo *c, uint8_t *payload, uint8_t command)
{
    et(c, payload, command, c->tag);
    memcpy(c->tag, payload, CC_CGO_TAG);
    prf_into_rest(c, payload, c->tag);
}

static void uiv_decrypt(cc_cgo *c, uint8_t *payload, uint8_t command)
{
    uint8_t before[CC_CGO_TAG];
    memcpy(before, c->tag, CC_CGO_TAG);
    memcpy(c->tag, payload, CC_CGO_TAG);
    prf_into_rest(c, payload, c->tag);
    et(c, payload, command, before);
}

/* J's AES key | J's POLYVAL key | S's AES key | S's POLYVAL key | nonce. */
static void set_keys(cc_cgo *c, const uint8_t *material)
{
    c->kernel->expand(c->j, material, c->key_len);
    if (c->role == CC_CGO_CLIENT)
        c->block->turn(c->j, c->s.rounds);
    material += c->key_len;
    c->polyval->prepare(c->powers, material);
    material += CC_BLOCK;
    c->kernel->expand(c->s.round_keys, material, c->key_len);
    material += c->key_len;
    memcpy(c->s_hash, material, CC_BLOCK);
    memcpy(c->nonce, material + CC_BLOCK, CC_CGO_TAG);
}

/* PRF(Y_L, t = 1) makes what replaces keys and nonce. */
void cc_cgo_update(cc_cgo *c)
{
    uint8_t material[CC_CGO_MATERIAL(32)];
    c->kernel->keystream(c->s.round_keys, c->s.rounds, prf(c, c->tag, 1), material, CC_CGO_MATERIAL(c->key_len) / CC_BLOCK);
    set_keys(c, material);
    cc_wipe(material, sizeof material);
}

static void crypt(cc_cgo *c, uint8_t *payload, uint8_t command)
{
    if (c->role == CC_CGO_RELAY)
        uiv_encrypt(c, payload, command);
    else
        uiv_decrypt(c, payload, command);
}

void cc_cgo_init(cc_cgo *c, const cc_kernel *kernel, const cc_polyval *polyval, cc_cgo_role role,
                 const uint8_t *material, size_t key_len)
{
    static const uint8_t no_iv[CC_BLOCK];
    memset(c, 0, sizeof *c);
    c->kernel = kernel;
    c->polyval = polyval;
    c->block = cc_block_beside(kernel);
    c->key_len = key_len;
    c->role = role;
    cc_stream_init(&c->s, kernel, material + key_len + CC_BLOCK, key_len, no_iv);
    set_keys(c, material);
}

void cc_cgo_originate(cc_cgo *c, uint8_t *payload, uint8_t command, uint8_t tag[CC_CGO_TAG])
{
    memcpy(payload, c->nonce, CC_CGO_TAG);
    crypt(c, payload, command);
    memcpy(tag, payload, CC_CGO_TAG);
    cc_cgo_update(c);
}

int cc_cgo_receive(cc_cgo *c, uint8_t *payload, uint8_t command, uint8_t tag[CC_CGO_TAG])
{
    memcpy(tag, payload, CC_CGO_TAG);
    crypt(c, payload, command);
    return same_block(payload, c->nonce);
}

void cc_cgo_pass(cc_cgo *c, uint8_t *payload, uint8_t command)
{
    crypt(c, payload, command);
}

void cc_cgo_wipe(cc_cgo *c)
{
    const cc_kernel *kernel = c->kernel;
    cc_wipe(c, sizeof *c);
    if (kernel) /* else it was wiped before */
        cc_forget(kernel);
}
