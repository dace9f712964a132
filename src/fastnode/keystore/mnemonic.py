"""Ethereum keys from a mnemonic: BIP-39 seed, BIP-32 derivation, path m/44'/60'/account'/0/address (BIP-44).

The words are not looked up in a list: any 12 to 24 words are a seed, as in the network's nodes.
"""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from typing import Final

from coincurve import PrivateKey

__all__ = ["derive_key", "seed_of"]

_WORD_COUNTS: Final = frozenset({12, 15, 18, 21, 24})
_SEED_ROUNDS: Final = 2048
_HARDENED: Final = 1 << 31
_ORDER: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_PURPOSE: Final = 44
_ETHER: Final = 60


def seed_of(mnemonic: str) -> bytes:
    """64 bytes; ValueError for a wrong number of words."""
    text = unicodedata.normalize("NFKD", mnemonic)
    words = text.split(" ")
    if len(words) not in _WORD_COUNTS or not all(words):
        raise ValueError("a mnemonic has 12, 15, 18, 21 or 24 words with one blank between them")
    return hashlib.pbkdf2_hmac("sha512", text.encode(), b"mnemonic", _SEED_ROUNDS)


def derive_key(seed: bytes, *, account: int, address: int) -> bytes:
    """The private key, 32 bytes."""
    key, chain_code = _split(hmac.digest(b"Bitcoin seed", seed, "sha512"))
    for index in (_PURPOSE + _HARDENED, _ETHER + _HARDENED, account + _HARDENED, 0, address):
        key, chain_code = _derive_child(key, chain_code, index)
    return key.to_bytes(32, "big")


def _split(digest: bytes) -> tuple[int, bytes]:
    return int.from_bytes(digest[:32], "big"), digest[32:]


def _derive_child(key: int, chain_code: bytes, index: int) -> tuple[int, bytes]:
    secret = key.to_bytes(32, "big")
    parent = b"\0" + secret if index >= _HARDENED else PrivateKey(secret).public_key.format(compressed=True)
    tweak, child_code = _split(hmac.digest(chain_code, parent + index.to_bytes(4, "big"), "sha512"))
    child = (tweak + key) % _ORDER
    if tweak >= _ORDER or child == 0:  # once in 2^127 keys; BIP-32 says to take the next index
        raise ValueError("this index of the mnemonic has no key")
    return child, child_code
