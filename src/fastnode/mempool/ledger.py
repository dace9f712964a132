"""The questions that the mempool asks about the chain.

Validation and the pool ask a :class:`Ledger`; :class:`ViewLedger` answers from one published view, so
that all answers about one transaction belong to one moment.  Tests put recorded answers in its place.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from fastnode.errors import Refused
from fastnode.log_index.contracts import contract_class_id_at
from fastnode.protocol.constants import NULLIFIER_TREE_ID
from fastnode.protocol.siloing import fee_juice_balance_leaf_slot

if TYPE_CHECKING:
    from fastnode.view import View
    from fastnode.world_state.view import WorldStateView

__all__ = ["Ledger", "ViewLedger", "balance_slot"]

_BALANCE_SLOTS_KEPT: Final = 8192


class Ledger(Protocol):
    """The committed chain at one moment."""

    @property
    def head(self) -> int:
        """Number of the newest block."""

    def knows_block(self, block_hash: bytes) -> bool:
        """True if a block of this hash is in the archive; the genesis block counts."""

    def any_nullifier_exists(self, nullifiers: Sequence[bytes]) -> bool:
        """True if one of these siloed nullifiers is in the tree."""

    def fee_juice_balance(self, address: bytes) -> int:
        """Public fee juice of an account."""

    def block_of_tx(self, tx_hash: bytes) -> int | None:
        """Number of the block that holds this transaction."""

    def contract_class_id(self, address: bytes, timestamp: int) -> bytes | None:
        """Class of the contract at this address at this time; None if there is no contract."""


@functools.lru_cache(_BALANCE_SLOTS_KEPT)
def balance_slot(address: bytes, fee_juice: bytes) -> bytes:
    """Leaf of the public data tree with an account's fee juice; ``fee_juice``: address of that contract."""
    return fee_juice_balance_leaf_slot(address, fee_juice)


class ViewLedger:
    """A ledger over a published view, which it keeps alive."""

    __slots__ = ("_chain", "_state")

    def __init__(self, view: View) -> None:
        self._chain = view.chain
        self._state = view.state

    @property
    def head(self) -> int:
        return self._chain.tip_number

    def knows_block(self, block_hash: bytes) -> bool:
        return self._chain.block_number_by_hash(block_hash) is not None

    def any_nullifier_exists(self, nullifiers: Sequence[bytes]) -> bool:
        state = self._require_state()
        return any(state.find_leaves(NULLIFIER_TREE_ID, nullifiers, state.tip.number))

    def fee_juice_balance(self, address: bytes) -> int:
        state = self._require_state()
        slot = balance_slot(address, self._chain.chain.release.addresses.fee_juice)
        return int.from_bytes(state.public_data_value(slot, state.tip.number), "big")

    def block_of_tx(self, tx_hash: bytes) -> int | None:
        location = self._chain.tx_location(tx_hash)
        return None if location is None else location.block_number

    def contract_class_id(self, address: bytes, timestamp: int) -> bytes | None:
        return contract_class_id_at(self._chain, address, timestamp)

    def _require_state(self) -> WorldStateView:
        if self._state is None:
            raise Refused("The world state is not loaded: transactions cannot be checked")
        return self._state
