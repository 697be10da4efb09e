/* Runs Counter Galois Onion under valgrind's memcheck with key material, nonces and payloads marked as undefined: memcheck
 * then reports each jump and each address that depends on one (see ctgrind.c). Whether a cell was recognized is made
 * public here, as a caller does by acting on it.
 *
 * Usage: valgrind --error-exitcode=9 ctgrind_cgo KERNEL POLYVAL [branch]
 * The third argument plants a leak. Ends with 3 where valgrind is not there or marks do not travel to the output. */
#include "cgo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/memcheck.h>

static volatile uint8_t sink;

static void secret(void *p, size_t n)
{
    (void)VALGRIND_MAKE_MEM_UNDEFINED(p, n);
}

static int is_secret(const void *p)
{
    uint8_t bits = 0;
    return VALGRIND_GET_VBITS(p, &bits, 1) == 1 && bits == 0xff;
}

static void expect(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "ctgrind_cgo: %s\n", what);
        exit(3);
    }
}

static int receive(cc_cgo *c, uint8_t *payload, uint8_t *tag)
{
    int ours = cc_cgo_receive(c, payload, 9, tag);
    expect(is_secret(payload) && is_secret(payload + CC_CGO_PAYLOAD - 1) && is_secret(tag), "a cell counts as public");
    (void)VALGRIND_MAKE_MEM_DEFINED(&ours, sizeof ours);
    if (ours)
        cc_cgo_update(c);
    return ours;
}

static void use(const cc_kernel *kernel, const cc_polyval *polyval, size_t key_len, cc_cgo_role sender)
{
    uint8_t material[CC_CGO_MATERIAL(32)] = {1, 2, 3}, payload[CC_CGO_PAYLOAD] = {4, 5, 6}, tag[CC_CGO_TAG];
    cc_cgo *from = aligned_alloc(64, sizeof *from), *to = aligned_alloc(64, sizeof *to);
    secret(material, sizeof material);
    cc_cgo_init(from, kernel, polyval, sender, material, key_len);
    cc_cgo_init(to, kernel, polyval, sender == CC_CGO_RELAY ? CC_CGO_CLIENT : CC_CGO_RELAY, material, key_len);
    for (int cell = 0; cell < 6; cell++) {
        secret(payload, sizeof payload);
        if (cell % 3 < 2)
            cc_cgo_originate(from, payload, 9, tag);
        else
            cc_cgo_pass(from, payload, 9);
        expect(is_secret(payload) && is_secret(payload + CC_CGO_PAYLOAD - 1), "a cell counts as public");
        expect(receive(to, payload, tag) == (cell % 3 < 2), "a cell was taken for another hop's");
        expect(is_secret(to->j) && is_secret(to->s.round_keys) && is_secret(to->powers + CC_POWERS - 1) && is_secret(to->nonce), "a key counts as public");
    }
    cc_cgo_wipe(from);
    expect(!is_secret(from->j) && !is_secret(from->s.round_keys) && !is_secret(from->powers + CC_POWERS - 1) && !is_secret(from->nonce), "the state was not wiped");
    free(from);
    free(to);
}

int main(int argc, char **argv)
{
    const cc_kernel *const *k = cc_kernels;
    const cc_polyval *const *p = cc_polyvals;
    while (argc > 2 && *k && strcmp((*k)->name, argv[1]))
        k++;
    while (argc > 2 && *p && strcmp((*p)->name, argv[2]))
        p++;
    expect(argc > 2 && *k && cc_kernel_usable(*k) && *p && cc_polyval_usable(*p), "there is no such kernel here");
    expect(RUNNING_ON_VALGRIND, "valgrind is not running this");
    for (int what = 0; what < 4; what++)
        use(*k, *p, what % 2 ? 32 : 16, what / 2 ? CC_CGO_CLIENT : CC_CGO_RELAY);
    uint8_t key[CC_BLOCK] = {7}, data[100] = {8}, hash[CC_BLOCK];
    secret(key, sizeof key);
    secret(data, sizeof data);
    cc_polyval_hash(*p, hash, key, data, sizeof data);
    if (argc > 3 && hash[3] == 9)
        sink = 1;
    return 0;
}
