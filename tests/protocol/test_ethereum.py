"""Keccak, recovery of signers, and the digest that L1 knows a checkpoint by."""

from __future__ import annotations

import itertools
import json
import lzma
from pathlib import Path

import pytest
from coincurve import PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from fastnode.protocol.checkpoint import PublishedCheckpoint
from fastnode.protocol.ethereum import keccak_256, payload_digest, recover_signer, signed_digest, with_recovery_byte

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def address_of(key: PrivateKey) -> bytes:
    return keccak_256(key.public_key.format(compressed=False)[1:])[-20:]


def sign(key: PrivateKey, digest: bytes) -> bytes:
    signature = key.sign_recoverable(digest, hasher=None)
    return signature[:64] + bytes([27 + signature[64]])


def test_keccak_is_that_of_ethereum() -> None:
    assert keccak_256(b"").hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    assert keccak_256(b"transfer(address,uint256)")[:4].hex() == "a9059cbb"


def test_a_well_known_key_has_its_address() -> None:
    key = PrivateKey(bytes.fromhex("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"))
    assert address_of(key).hex() == "f39fd6e51aad88f6f4ce6ab8827279cfffb92266"


@pytest.mark.parametrize(
    ("number", "digest"),
    [
        (1, "58ada12f1e80e15335dea873389cf3f3dfa9f94219aef6d3741e5d7020bac195"),
        (2, "57fe6c716d2bb08f7abf18ae0f4e1a06005df2d2f85445b4b05e945e06275476"),
        (3, "d26c2725ffeef5a6795470b4dc59ef9c42f579c5482309b3328400ef8d49d7c3"),
    ],
)
def test_the_digest_of_a_checkpoint_is_that_of_its_event_on_l1(sample_chain: Path, number: int, digest: str) -> None:
    with lzma.open(sample_chain) as lines:
        record = json.loads(next(itertools.islice(lines, 1 + number, None)))
    checkpoint = PublishedCheckpoint.from_json(record["published"]).checkpoint
    computed = payload_digest(checkpoint.header, checkpoint.archive.root, checkpoint.fee_asset_price_modifier)
    assert computed.hex() == digest


@settings(max_examples=50)
@given(secret=st.integers(1, ORDER - 1), message=st.binary(min_size=32, max_size=32))
def test_a_signer_is_recovered(secret: int, message: bytes) -> None:
    key = PrivateKey(secret.to_bytes(32, "big"))
    digest = signed_digest(message)
    signature = sign(key, digest)
    assert recover_signer(digest, signature) == address_of(key)
    assert recover_signer(signed_digest(digest), signature) != address_of(key)


@pytest.mark.parametrize("v", [0, 1, 26, 27, 28, 29, 255])
@pytest.mark.parametrize("is_high", [False, True])
def test_a_signature_for_a_contract_has_27_or_28_as_its_last_byte(v: int, is_high: bool) -> None:
    """As contracts and other nodes have it: nothing else has a signer, and neither has a high s with any v."""
    key, digest = PrivateKey(b"\1" * 32), signed_digest(bytes(32))
    signature = sign(key, digest)
    s = int.from_bytes(signature[32:64], "big")
    tried = signature[:32] + (ORDER - s if is_high else s).to_bytes(32, "big") + bytes([v])
    signer = recover_signer(digest, tried)
    assert (signer is not None) == (v in (27, 28) and not is_high)
    assert (signer == address_of(key)) == (tried == signature)


def test_the_plain_recovery_id_of_a_transaction_is_raised_to_that_of_contracts() -> None:
    key, digest = PrivateKey(b"\1" * 32), signed_digest(bytes(32))
    signature = sign(key, digest)
    plain = signature[:64] + bytes([signature[64] - 27])
    assert recover_signer(digest, plain) is None
    assert with_recovery_byte(plain) == with_recovery_byte(signature) == signature
    assert with_recovery_byte(signature[:64] + b"\x1d") == signature[:64] + b"\x1d"


def test_the_other_signature_of_the_same_key_is_refused() -> None:
    """(r, n - s) is as good on the curve, and refused on L1."""
    digest = signed_digest(bytes(32))
    signature = sign(PrivateKey(b"\x01" * 32), digest)
    high = ORDER - int.from_bytes(signature[32:64], "big")
    assert recover_signer(digest, signature[:32] + high.to_bytes(32, "big") + bytes([55 - signature[64]])) is None


@pytest.mark.parametrize(
    "signature", [b"", bytes(65), b"\xff" * 65, bytes(64) + b"\x1b", b"\x01" * 64 + b"\x02", b"\x05" * 64 + b"\x1b" * 2]
)
def test_what_no_key_made_has_no_signer(signature: bytes) -> None:
    assert recover_signer(bytes(32), signature) is None


@settings(max_examples=200)
@given(signature=st.binary(min_size=65, max_size=65), digest=st.binary(min_size=32, max_size=32))
def test_nonsense_never_raises(signature: bytes, digest: bytes) -> None:
    assert len(recover_signer(digest, signature) or bytes(20)) == 20
    recover_signer(digest, signature[:64] + b"\x1b")
