"""Effects without a transaction: state that is set by a call goes into an ordinary block, so the chain stays valid."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from fastnode.mempool.ledger import balance_slot
from fastnode.protocol.effects import PublicDataWrite, TxEffect
from fastnode.protocol.fields import FIELD_BYTES

__all__ = ["balances_effect", "random_field", "writes_effect"]


def random_field() -> bytes:
    """Below the modulus: the highest byte is zero."""
    return b"\0" + secrets.token_bytes(FIELD_BYTES - 1)


def balances_effect(amounts: Mapping[bytes, int], fee_juice: bytes) -> TxEffect:
    """Gives accounts so much fee juice; ``fee_juice``: address of the contract with the balances."""
    return writes_effect(
        {balance_slot(address, fee_juice): amount.to_bytes(FIELD_BYTES, "big") for address, amount in amounts.items()}
    )


def writes_effect(values: Mapping[bytes, bytes]) -> TxEffect:
    """Writes leaves of the public data tree, with a hash and a nullifier that no transaction has."""
    return TxEffect(
        revert_code=0,
        tx_hash=random_field(),
        transaction_fee=0,
        note_hashes=(),
        nullifiers=(random_field(),),
        l2_to_l1_msgs=(),
        public_data_writes=tuple(PublicDataWrite(leaf_slot, value) for leaf_slot, value in values.items()),
        private_logs=(),
        public_logs=(),
        contract_class_logs=(),
    )
