"""Transactions as bytes: both forms of blobs as the reference writes them, remote signers' answers, RLP."""

from __future__ import annotations

import gzip
import hashlib
import json
from typing import Any

import pytest
from coincurve import PrivateKey
from tests.publishing.recorded import DATA, data_of

from fastnode.errors import DecodeError
from fastnode.protocol import rlp
from fastnode.publishing.envelope import BlobBundle, SidecarForm, SignedTransaction, Transaction, sidecar_form_of

BOTH = {"4844": SidecarForm.EIP_4844, "7594": SidecarForm.EIP_7594}


@pytest.fixture(scope="module")
def wrappers() -> Any:
    return json.loads(gzip.open(DATA / "wrappers.json.gz").read())


@pytest.fixture(scope="module")
def bundle(wrappers: Any) -> BlobBundle:
    return BlobBundle([first.to_bytes(32, "big") for first in wrappers["firstField"]])


def signed(wrappers: Any, bundle: BlobBundle) -> SignedTransaction:
    fields = wrappers["tx"]
    transaction = Transaction(
        chain_id=fields["chainId"],
        nonce=fields["nonce"],
        tip_max=fields["maxPriorityFeePerGas"],
        fee_max=fields["maxFeePerGas"],
        gas=fields["gas"],
        to=data_of(fields["to"]),
        value=fields["value"],
        blob_fee_max=fields["maxFeePerBlobGas"],
        versioned_hashes=bundle.versioned_hashes,
    )
    key = PrivateKey(data_of(wrappers["key"]))
    return transaction.sign(lambda digest: key.sign_recoverable(digest, hasher=None))


@pytest.mark.parametrize("form", BOTH)
def test_both_forms_of_blobs_are_those_of_the_reference(wrappers: Any, bundle: BlobBundle, form: str) -> None:
    assert [item.hex() for item in bundle.commitments] == [text[2:] for text in wrappers["commitments"]]
    assert ["0x" + item.hex() for item in bundle.proofs(BOTH[form])] == wrappers["proofs" + form]
    raw = signed(wrappers, bundle).raw(bundle, BOTH[form])
    assert [len(raw), hashlib.sha256(raw).hexdigest()] == wrappers["raw" + form]


def test_the_hash_does_not_depend_on_the_form_and_the_key_signed_it(wrappers: Any, bundle: BlobBundle) -> None:
    transaction = signed(wrappers, bundle)
    content = rlp.decode(transaction.raw(bundle)[1:], items_max=200, depth_max=3)
    assert isinstance(content, list)
    from fastnode.protocol.ethereum import keccak_256

    assert keccak_256(b"\3" + rlp.encode(content[0])) == transaction.hash()
    assert transaction.sender() == data_of("0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266")


def test_what_a_remote_signer_gives_back_must_be_what_was_asked_for(wrappers: Any, bundle: BlobBundle) -> None:
    transaction = signed(wrappers, bundle)
    for raw in (b"\3" + rlp.encode(transaction._fields), transaction.raw(bundle)):
        again = transaction.transaction.signed_from(raw)
        assert again.hash() == transaction.hash()
        assert again.sender() == transaction.sender()
    other = list(transaction._fields)
    other[1] = 99
    with pytest.raises(DecodeError, match="another transaction"):
        transaction.transaction.signed_from(b"\3" + rlp.encode(other))
    for raw in (b"", b"\2\xc0", b"\3\xc0", b"\3\x80", b"\3\xc1", b"\3" + rlp.encode([*other[:-1], b"\1" * 33])):
        with pytest.raises(DecodeError):
            transaction.transaction.signed_from(raw)


def test_blobs_of_another_transaction_are_refused(wrappers: Any, bundle: BlobBundle) -> None:
    with pytest.raises(ValueError, match="other blobs"):
        signed(wrappers, bundle).raw(BlobBundle([b"\0" * 31 + b"\1"]))


def test_chains_get_the_form_that_their_nodes_want() -> None:
    assert sidecar_form_of(31337, 2**40) is SidecarForm.EIP_4844
    assert sidecar_form_of(11155111, 0) is SidecarForm.EIP_7594
    assert sidecar_form_of(1, 1764798550) is SidecarForm.EIP_4844
    assert sidecar_form_of(1, 1764798551) is SidecarForm.EIP_7594


def test_a_plain_transaction_has_no_blobs() -> None:
    """The example of EIP-1559's reference implementation, as libraries print it."""
    transaction = Transaction(
        chain_id=31337, nonce=0, tip_max=1, fee_max=2, gas=21000, to=b"\1" * 20, value=5, data=b"\xab"
    )
    key = PrivateKey(b"\7" * 32)
    raw = transaction.sign(lambda digest: key.sign_recoverable(digest, hasher=None)).raw()
    assert raw[0] == 2
    fields = rlp.decode(raw[1:], items_max=20, depth_max=2)
    assert isinstance(fields, list)
    assert fields[:9] == [b"\x7a\x69", b"", b"\1", b"\2", b"\x52\x08", b"\1" * 20, b"\5", b"\xab", []]
