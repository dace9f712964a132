"""Encrypted key files, against the published examples of both formats, and mnemonics against known accounts."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.keystore.key_files import KeyFileError, decrypt_key_file
from fastnode.keystore.mnemonic import derive_key, seed_of
from fastnode.keystore.private_keys import BlsKey, EthKey

#: Web3 secret storage definition, "Test vectors".
V3_PASSWORD = "testpassword"
V3_SECRET = "7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d"
V3_PBKDF2: dict[str, Any] = {
    "crypto": {
        "cipher": "aes-128-ctr",
        "cipherparams": {"iv": "6087dab2f9fdbbfaddc31a909735c1e6"},
        "ciphertext": "5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46",
        "kdf": "pbkdf2",
        "kdfparams": {
            "c": 262144,
            "dklen": 32,
            "prf": "hmac-sha256",
            "salt": "ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd",
        },
        "mac": "517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2",
    },
    "id": "3198bc9c-6672-5ab3-d995-4942343ae5b6",
    "version": 3,
}
V3_SCRYPT: dict[str, Any] = {
    "crypto": {
        "cipher": "aes-128-ctr",
        "cipherparams": {"iv": "83dbcc02d8ccb40e466191a123791e0e"},
        "ciphertext": "d172bf743a674da9cdad04534d56926ef8358534d458fffccd4e6ad2fbde479c",
        "kdf": "scrypt",
        "kdfparams": {
            "dklen": 32,
            "n": 262144,
            "r": 1,
            "p": 8,
            "salt": "ab0c7876052600dd703518d6fc3fe8984592145b591fc8fb5c6d43190334ba19",
        },
        "mac": "2103ac29920d71da29f15d75b4a16dbe95cfd7ff8faea1056c33131d846e3097",
    },
    "version": 3,
}
#: EIP-2335, "Test cases".
V4_PASSWORD = "𝔱𝔢𝔰𝔱𝔭𝔞𝔰𝔰𝔴𝔬𝔯𝔡🔑"
V4_SECRET = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"
V4_PBKDF2: dict[str, Any] = {
    "crypto": {
        "kdf": {
            "function": "pbkdf2",
            "params": {
                "dklen": 32,
                "c": 262144,
                "prf": "hmac-sha256",
                "salt": "d4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3",
            },
            "message": "",
        },
        "checksum": {
            "function": "sha256",
            "params": {},
            "message": "8a9f5d9912ed7e75ea794bc5a89bca5f193721d30868ade6f73043c6ea6febf1",
        },
        "cipher": {
            "function": "aes-128-ctr",
            "params": {"iv": "264daa3f303d7259501c93d997d84fe6"},
            "message": "cee03fde2af33149775b7223e7845e4fb2c8ae1792e5f99fe9ecf474cc8c16ad",
        },
    },
    "path": "m/12381/60/0/0",
    "version": 4,
}
MNEMONIC = "test test test test test test test test test test test junk"


@pytest.mark.parametrize(
    ("document", "password", "secret"),
    [
        (V3_PBKDF2, V3_PASSWORD, V3_SECRET),
        (V3_SCRYPT, V3_PASSWORD, V3_SECRET),
        (V4_PBKDF2, V4_PASSWORD, V4_SECRET),
        (V4_PBKDF2, "testpassword🔑", V4_SECRET),  # what the password is normalised to
        (V4_PBKDF2, "test\x00pass\x7fword\u0085🔑", V4_SECRET),  # without control characters
    ],
)
def test_a_published_example_is_decrypted(document: Any, password: str, secret: str) -> None:
    assert decrypt_key_file(document, password).hex() == secret


@pytest.mark.parametrize(("document", "password"), [(V3_PBKDF2, "Testpassword"), (V4_PBKDF2, "testpassword")])
def test_a_wrong_password_is_told_from_a_file_that_is_none(document: Any, password: str) -> None:
    with pytest.raises(KeyFileError, match=r"^the password is wrong, or the file is damaged$"):
        decrypt_key_file(document, password)


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    result = copy.deepcopy(document)
    *parents, last = path.split(".")
    place = result
    for key in parents:
        place = place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return result


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (changed(V3_PBKDF2, "crypto.ciphertext", "00" * 32), "the password is wrong"),
        (changed(V3_PBKDF2, "crypto.cipher", "aes-128-cbc"), "another cipher"),
        (changed(V3_PBKDF2, "crypto.kdf", "argon2id"), "neither scrypt nor PBKDF2"),
        (changed(V3_PBKDF2, "crypto.kdfparams.prf", "hmac-sha512"), "neither scrypt nor PBKDF2"),
        (changed(V3_PBKDF2, "crypto.kdfparams.c", 1 << 40), "more than 67108864 rounds"),
        (changed(V3_PBKDF2, "crypto.kdfparams.dklen", 16), "unusual length"),
        (changed(V3_SCRYPT, "crypto.kdfparams.n", 1 << 40), "more than 1024 MB"),
        (changed(V3_SCRYPT, "crypto.kdfparams.p", 1 << 20), "more than 1024 MB"),
        (changed(V3_SCRYPT, "crypto.kdfparams.n", 12345), "not a key file"),
        (changed(V3_PBKDF2, "crypto.kdfparams.salt", "xx"), "not a key file"),
        (changed(V3_PBKDF2, "crypto.mac", None), "not a key file"),
        (changed(V3_PBKDF2, "version", 5), "not a key file"),
        (changed(V4_PBKDF2, "crypto.checksum.function", "md5"), "another hash"),
        (changed(V4_PBKDF2, "crypto.cipher.params.iv", "00" * 17), "too long"),
        (None, "not a key file"),
        ([], "not a key file"),
        ({}, "not a key file"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_a_reason(document: Any, reason: str) -> None:
    password = V4_PASSWORD if document and document.get("version") == 4 else V3_PASSWORD
    with pytest.raises(KeyFileError, match=reason):
        decrypt_key_file(document, password)


@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner)))
def test_anything_that_is_json_is_decrypted_or_refused(document: Any) -> None:
    for version in (3, 4):
        with pytest.raises(KeyFileError):
            decrypt_key_file({"version": version, "crypto": document}, "")


# ---- mnemonics ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("account", "index", "address"),
    [
        (0, 0, "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"),
        (0, 1, "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"),
        (0, 9, "0xa0ee7a142d267c1f36714e4a8f75612f20a79720"),
        (1, 0, "0x8c8d35429f74ec245f8ef2f4fd1e551cff97d650"),
    ],
)
def test_the_accounts_of_a_well_known_mnemonic_are_found(account: int, index: int, address: str) -> None:
    assert EthKey(derive_key(seed_of(MNEMONIC), account=account, address=index)).address == address


def test_a_bip_39_seed_is_right() -> None:
    """The first vector of the Trezor list, without its passphrase."""
    words = "abandon " * 11 + "about"
    assert seed_of(words).hex() == (
        "5eb00bbddcf069084889a8ab9155568165f5c453ccb85e70811aaed6f6da5fc1"
        "9a5ac40b389cd370d086206dec8aa6c43daea6690f20ad3d8d48b2d2ce9e38e4"
    )


@pytest.mark.parametrize("words", ["", "one two", MNEMONIC + " more", MNEMONIC.replace(" ", "  ", 1)])
def test_a_mnemonic_of_another_length_is_refused(words: str) -> None:
    with pytest.raises(ValueError, match="a mnemonic has 12, 15, 18, 21 or 24 words"):
        seed_of(words)


# ---- keys in memory ---------------------------------------------------------------------------------

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


@pytest.mark.parametrize("secret", [b"", b"\0" * 32, ORDER.to_bytes(32, "big"), b"\1" * 31, b"\1" * 33])
def test_bytes_that_are_no_key_are_refused(secret: bytes) -> None:
    for make in (EthKey, BlsKey):
        with pytest.raises(ValueError, match=r"^not a (secp256k1|BLS12-381) private key$"):
            make(secret)


def test_a_key_is_in_no_text_of_itself() -> None:
    secret = bytes(range(1, 33))
    for key in (EthKey(secret), BlsKey(secret)):
        assert key.reveal() == secret
        for text in (repr(key), str(key), f"{key}", repr([key]), repr({"key": key})):
            assert secret.hex() not in text
            assert repr(secret) not in text
        assert not hasattr(key, "__dict__")
        with pytest.raises(TypeError, match="does not leave the process"):
            pickle.dumps(key)
