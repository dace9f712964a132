"""Encrypted key files: the Web3 secret storage (version 3) for Ethereum keys, EIP-2335 (version 4) for BLS keys.

                    version 3                              version 4
    derived key     scrypt or PBKDF2-HMAC-SHA-256 of the password, 32 bytes or more
    check           keccak-256(dk[16:32] + ciphertext)     SHA-256(dk[16:32] + ciphertext)
    key             AES-128-CTR(dk[:16], iv, ciphertext)
    password        UTF-8                                  UTF-8 of its NFKD form, without control characters

What a file asks for is bounded: it must not take all memory or an hour.
"""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from collections.abc import Callable
from typing import Any, Final

from Crypto.Cipher import AES
from Crypto.Protocol.KDF import scrypt

from fastnode.protocol.ethereum import keccak_256

__all__ = ["KeyFileError", "decrypt_key_file"]

_SCRYPT_BYTES_MAX: Final = 1 << 30
_PBKDF2_ROUNDS_MAX: Final = 1 << 26
_DERIVED_BYTES_MIN: Final = 32
_DERIVED_BYTES_MAX: Final = 1 << 10
_PARALLEL_MAX: Final = 1 << 8
_CIPHER: Final = "aes-128-ctr"
_IV_BYTES: Final = 16


class KeyFileError(Exception):
    """A file that gives no key.  The message says why, with nothing of the content."""


def decrypt_key_file(document: object, password: str) -> bytes:
    """The private key in a parsed key file."""
    try:
        version = document["version"]  # type: ignore[index]
        if version == 3:
            return _decrypt_v3(document, password)
        if version == 4:
            return _decrypt_v4(document, password)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, MemoryError):
        # Any error of a damaged file; the cause may quote its content.
        raise KeyFileError("not a key file of version 3 or 4") from None
    raise KeyFileError("not a key file of version 3 or 4")


def _decrypt_v3(document: Any, password: str) -> bytes:
    crypto = document["crypto"] if "crypto" in document else document["Crypto"]
    if crypto["cipher"] != _CIPHER:
        raise KeyFileError("encrypted with another cipher than aes-128-ctr")
    derived = _derive(crypto["kdf"], crypto["kdfparams"], password.encode())
    ciphertext = bytes.fromhex(crypto["ciphertext"])
    return _open(derived, ciphertext, crypto["cipherparams"]["iv"], crypto["mac"], keccak_256)


def _decrypt_v4(document: Any, password: str) -> bytes:
    crypto = document["crypto"]
    kdf, checksum, cipher = crypto["kdf"], crypto["checksum"], crypto["cipher"]
    if cipher["function"] != _CIPHER or checksum["function"] != "sha256":
        raise KeyFileError("encrypted with another cipher than aes-128-ctr, or checked with another hash than sha256")
    derived = _derive(kdf["function"], kdf["params"], _normalized(password))
    ciphertext = bytes.fromhex(cipher["message"])
    return _open(derived, ciphertext, cipher["params"]["iv"], checksum["message"], _sha256)


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _normalized(password: str) -> bytes:
    """EIP-2335, "Password requirements"."""
    text = unicodedata.normalize("NFKD", password)
    return "".join(character for character in text if unicodedata.category(character) != "Cc").encode()


def _derive(function: str, params: Any, password: bytes) -> bytes:
    salt, length = bytes.fromhex(params["salt"]), params["dklen"]
    if not _DERIVED_BYTES_MIN <= length <= _DERIVED_BYTES_MAX:
        raise KeyFileError("the derived key has an unusual length")
    if function == "scrypt":
        n, r, p = params["n"], params["r"], params["p"]
        memory = 128 * n * r
        if not 0 < memory <= _SCRYPT_BYTES_MAX or not 0 < p <= _PARALLEL_MAX:
            raise KeyFileError(f"its scrypt needs more than {_SCRYPT_BYTES_MAX >> 20} MB")
        # Not hashlib's: OpenSSL refuses n above 2^16 with r = 1, which the published example of version 3 has.
        return bytes(scrypt(password, salt, length, N=n, r=r, p=p))
    if function == "pbkdf2" and params["prf"] == "hmac-sha256":
        if not 0 < params["c"] <= _PBKDF2_ROUNDS_MAX:
            raise KeyFileError(f"its PBKDF2 needs more than {_PBKDF2_ROUNDS_MAX} rounds")
        return hashlib.pbkdf2_hmac("sha256", password, salt, params["c"], length)
    raise KeyFileError("its key derivation is neither scrypt nor PBKDF2 with HMAC-SHA-256")


def _open(derived: bytes, ciphertext: bytes, iv_text: str, mac_text: str, mac: Callable[[bytes], bytes]) -> bytes:
    if not hmac.compare_digest(mac(derived[16:32] + ciphertext), bytes.fromhex(mac_text)):
        raise KeyFileError("the password is wrong, or the file is damaged")
    iv = bytes.fromhex(iv_text)
    if len(iv) > _IV_BYTES:
        raise KeyFileError("its initialization vector is too long")
    cipher = AES.new(derived[:16], AES.MODE_CTR, nonce=b"", initial_value=iv.rjust(_IV_BYTES, b"\0"))
    return bytes(cipher.decrypt(ciphertext))
