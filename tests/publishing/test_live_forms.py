"""Both forms of blobs at a real node of L1, without any contracts.

anvil from 1.7 on takes and checks both; one before knows EIP-4844 alone, and gets that.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from coincurve import PrivateKey
from tests.publishing.live_l1 import CHAIN_ID, LONG, Anvil, needs_anvil, test_key

from fastnode.errors import NotTaken
from fastnode.outgoing.network import Network
from fastnode.publishing.envelope import BlobBundle, SidecarForm, SignedTransaction, Transaction
from fastnode.publishing.wire import Wire
from fastnode.sources.l1.endpoints import L1Client

pytestmark = [needs_anvil]

KEY = test_key(0)
ADDRESS = bytes.fromhex(KEY.address[2:])


@pytest.fixture
def anvil() -> Iterator[Anvil]:
    anvil = Anvil()
    anvil.start()
    yield anvil
    anvil.kill()


def signed_with(bundle: BlobBundle, nonce: int) -> SignedTransaction:
    transaction = Transaction(
        chain_id=CHAIN_ID,
        nonce=nonce,
        tip_max=10**9,
        fee_max=10**12,
        gas=21_000,
        to=ADDRESS,
        blob_fee_max=10**3,
        versioned_hashes=bundle.versioned_hashes,
    )
    secret = PrivateKey(KEY.reveal())
    return transaction.sign(lambda digest: secret.sign_recoverable(digest, hasher=None))


def bundle_of(number: int) -> BlobBundle:
    """A blob that is no constant: its proofs are all different."""
    return BlobBundle([b"".join(each.to_bytes(32, "big") for each in range(number, number + 60))])


@pytest.mark.parametrize("form", SidecarForm)
def test_a_node_of_l1_checks_what_goes_with_blobs_and_mines_them(anvil: Anvil, form: SidecarForm) -> None:
    with Network() as network:
        wire = Wire(ADDRESS, L1Client([anvil.url], network, limits=LONG), CHAIN_ID)
        wire._form = form
        bundle = bundle_of(1)
        signed = signed_with(bundle, 0)
        wire.transmit(signed, bundle)
        anvil.mine()
        receipt = anvil.call("eth_getTransactionReceipt", "0x" + signed.hash().hex())
        assert int(receipt["status"], 16) == 1
        assert int(receipt["blobGasUsed"], 16) == 131_072
        if wire.sidecar_form() is not form:
            pytest.skip("this anvil does not know proofs of cells")
        other = bundle_of(2)
        other._proofs[form] = bundle.proofs(form)
        with pytest.raises(NotTaken, match="KZG"):
            wire.transmit(signed_with(other, 1), other)
