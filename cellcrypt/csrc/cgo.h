/* Counter Galois Onion in C: what polyval*.c, aes_block*.c and cgo.c owe each other and module_cgo.c.
 *
 *   polyval.c          POLYVAL (RFC 8452, section 3): the table of kernels, the portable one, the hash of any message
 *   polyval_pclmul.c   carry-less multiplication, one product at a time and 32 aggregated (PCLMULQDQ)
 *   polyval_vpclmul.c  the same, four products at a time (VPCLMULQDQ with AVX-512)
 *   aes_block.c        AES and its inverse for one block
 *   cgo.c              ET, PRF, UIV+ and the operations of relay and client, as proposal 359 names them; written once
 *
 * Rules: those of cellcrypt.h. Nothing here branches on a key, a payload, a tag or a nonce, or addresses by one. Whether a
 * cell was recognized is public only once the caller acts on it, so it is the caller who then lets the keys roll.
 */
#ifndef CELLCRYPT_CGO_H
#define CELLCRYPT_CGO_H

#include "cellcrypt.h"

#define CC_CGO_PAYLOAD 509                         /* octets; tor-spec, "Relay cells" */
#define CC_CGO_TAG 16                              /* X_L of UIV+: one AES block */
#define CC_CGO_REST (CC_CGO_PAYLOAD - CC_CGO_TAG)  /* X_R of UIV+: 493 octets */
#define CC_CGO_TWEAK_BLOCKS 32                     /* tag 16, command 1, X_R 493, zero padding 2 */
#define CC_CGO_PRF_T1 31                           /* first block of the PRF for t = 1: X_R takes blocks 0 to 30 */
#define CC_POWERS (CC_BLOCK * CC_CGO_TWEAK_BLOCKS)

/* A POLYVAL kernel. `powers` is in the kernel's own layout, except that its last 16 octets are the key itself. */
typedef struct {
    const char *name; /* "vpclmul", "pclmul", "portable" */

    void (*prepare)(uint8_t powers[CC_POWERS], const uint8_t key[CC_BLOCK]);

    /* POLYVAL of tag | command | rest | 00 00: the tweak of ET for one cell. */
    void (*tweak)(uint8_t out[CC_BLOCK], const uint8_t powers[CC_POWERS], const uint8_t tag[CC_CGO_TAG],
                  uint8_t command, const uint8_t *rest);

    /* dot(x, key), which is POLYVAL of the one block x. out may be x. */
    void (*product)(uint8_t out[CC_BLOCK], const uint8_t key[CC_BLOCK], const uint8_t x[CC_BLOCK]);
} cc_polyval;

/* Compiled in, best first, NULL-terminated; whether this processor runs one; the best to go with an AES kernel. */
extern const cc_polyval *const cc_polyvals[];
int cc_polyval_usable(const cc_polyval *p);
const cc_polyval *cc_polyval_beside(const cc_kernel *k);

/* POLYVAL of any message, padded with zero octets to whole blocks. */
void cc_polyval_hash(const cc_polyval *p, uint8_t out[CC_BLOCK], const uint8_t key[CC_BLOCK], const uint8_t *data,
                     size_t len);

/* ---- aes_block.c ---- */

/* Round keys are those of FIPS-197, section 5.2, in its order, which is how every kernel's `expand` leaves them. */
typedef struct {
    const char *name; /* "aesni", "portable" */
    void (*turn)(uint8_t *round_keys, unsigned rounds); /* into keys for `decrypt` */
    void (*encrypt)(const uint8_t *round_keys, unsigned rounds, uint8_t out[CC_BLOCK], const uint8_t in[CC_BLOCK]);
    void (*decrypt)(const uint8_t *round_keys, unsigned rounds, uint8_t out[CC_BLOCK], const uint8_t in[CC_BLOCK]);
} cc_block;

/* The best to go with a kernel. */
const cc_block *cc_block_beside(const cc_kernel *k);

/* ---- cgo.c ---- */

typedef enum { CC_CGO_RELAY, CC_CGO_CLIENT } cc_cgo_role; /* relays encrypt, clients decrypt, both ways */

/* One direction of one hop. 64-aligned by its owner. */
typedef struct {
    uint8_t powers[CC_POWERS];       /* J's POLYVAL key */
    cc_stream s;                     /* S's AES key; `next` is set anew for every use, `used` stays 16 */
    uint8_t j[CC_ROUND_KEYS];        /* J's AES key; a client's is turned */
    uint8_t s_hash[CC_BLOCK];        /* S's POLYVAL key */
    uint8_t nonce[CC_CGO_TAG];       /* N: X_L of a cell that is this hop's own */
    uint8_t tag[CC_CGO_TAG];         /* T': Y_L of the cell before */
    const cc_kernel *kernel;
    const cc_polyval *polyval;
    const cc_block *block;
    size_t key_len;                  /* of either AES key: 16 or 32 octets */
    cc_cgo_role role;
} cc_cgo;

#define CC_CGO_MATERIAL(key_len) (2 * (key_len) + 3 * CC_BLOCK) /* 80 or 112 octets: J, S, nonce */

void cc_cgo_init(cc_cgo *c, const cc_kernel *kernel, const cc_polyval *polyval, cc_cgo_role role,
                 const uint8_t *material, size_t key_len);

/* A cell that this hop is the far end of: put the nonce in, encrypt or decrypt, roll the keys. `tag`: as it crosses the relay's link. */
void cc_cgo_originate(cc_cgo *c, uint8_t *payload, uint8_t command, uint8_t tag[CC_CGO_TAG]);

/* A cell that may be this hop's own: 1 if it is, in constant time, and 0 if not. `tag`: what it began with. Where it is,
 * cc_cgo_update must follow. */
int cc_cgo_receive(cc_cgo *c, uint8_t *payload, uint8_t command, uint8_t tag[CC_CGO_TAG]);

/* Update: all keys and the nonce anew, out of Y_L of the cell that was just received. */
void cc_cgo_update(cc_cgo *c);

/* Another hop's cell. */
void cc_cgo_pass(cc_cgo *c, uint8_t *payload, uint8_t command);

void cc_cgo_wipe(cc_cgo *c);

#endif
