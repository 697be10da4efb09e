"""AES-CTR in plain Python, slow and obvious: the witness that every backend is compared with.

Rules of this file: reads like the standard; shares nothing with the package; no tables but the S-box, which is
computed, not copied.

Theory: FIPS-197 for AES (sections and figures stand at each step); NIST SP 800-38A, section 6.5, for counter mode, with
all 128 bits of the counter block incremented.
"""

from __future__ import annotations

from functools import cache


def _times(a: int, b: int) -> int:
    """Multiply in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1 (section 4.2)."""
    product = 0
    while b:
        if b & 1:
            product ^= a
        a = a << 1 ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return product


def _substitute(a: int) -> int:
    """Take the inverse in GF(2^8), 0 staying 0, then the affine map (section 5.1.1)."""
    inverse = next((b for b in range(256) if _times(a, b) == 1), 0)
    result = 0x63
    for turn in range(5):
        result ^= (inverse << turn | inverse >> 8 - turn) & 0xFF
    return result


_SBOX = [_substitute(a) for a in range(256)]
_TWICE = [_times(a, 2) for a in range(256)]


@cache
def _round_keys(key: bytes) -> list[list[int]]:
    """Expand a key into 11, 13 or 15 round keys of 16 octets (section 5.2, figure 11)."""
    key_words = len(key) // 4
    words = [list(key[4 * i : 4 * i + 4]) for i in range(key_words)]
    constant = 1
    for i in range(key_words, 4 * (key_words + 7)):
        word = list(words[i - 1])
        if i % key_words == 0:
            word = [_SBOX[octet] for octet in [*word[1:], word[0]]]
            word[0] ^= constant
            constant = _TWICE[constant]
        elif key_words > 6 and i % key_words == 4:
            word = [_SBOX[octet] for octet in word]
        words.append([a ^ b for a, b in zip(words[i - key_words], word, strict=True)])
    return [[octet for word in words[i : i + 4] for octet in word] for i in range(0, len(words), 4)]


def _mix_column(a: int, b: int, c: int, d: int) -> list[int]:
    """Multiply a column by {03}x^3 + {01}x^2 + {01}x + {02} (section 5.1.3)."""
    everything = a ^ b ^ c ^ d
    return [
        a ^ everything ^ _TWICE[a ^ b],
        b ^ everything ^ _TWICE[b ^ c],
        c ^ everything ^ _TWICE[c ^ d],
        d ^ everything ^ _TWICE[d ^ a],
    ]


def encrypt_block(key: bytes, block: bytes) -> bytes:
    """Encrypt 16 octets (section 5.1, figure 5). Octet r + 4c is row r, column c of the state."""
    first, *middle, last = _round_keys(key)
    state = [a ^ b for a, b in zip(block, first, strict=True)]
    for round_key in middle:
        state = [_SBOX[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]  # SubBytes and ShiftRows
        state = [octet for c in range(0, 16, 4) for octet in _mix_column(*state[c : c + 4])]
        state = [a ^ b for a, b in zip(state, round_key, strict=True)]
    state = [_SBOX[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]
    return bytes(a ^ b for a, b in zip(state, last, strict=True))


@cache
def _key_stream_block(key: bytes, counter: int) -> bytes:
    return encrypt_block(key, counter.to_bytes(16, "big"))


def keystream(key: bytes, iv: bytes, position: int, length: int) -> bytes:
    """Return `length` octets of key stream from octet `position` on."""
    first, within = divmod(position, 16)
    blocks = (within + length + 15) // 16
    start = int.from_bytes(iv, "big") + first
    stream = b"".join(_key_stream_block(key, (start + i) % 2**128) for i in range(blocks))
    return stream[within : within + length]


def xor(a: bytes, b: bytes) -> bytes:
    """Return a XOR b, octet by octet."""
    return bytes(p ^ q for p, q in zip(a, b, strict=True))
