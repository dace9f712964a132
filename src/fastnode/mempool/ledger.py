"""What the mempool needs to know about the chain, behind four questions.

Validation and the pool ask a :class:`Ledger`; :class:`ViewLedger` answers from one published view, so
that all answers about one transaction belong to one moment.  Tests put recorded answers in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import orjson

from fastnode.errors import ServerError
from fastnode.kernels import encode
from fastnode.protocol.constants import NULLIFIER_TREE_ID
from fastnode.protocol.siloing import fee_juice_balance_leaf_slot


class Ledger(Protocol):
    """The committed chain at one moment."""

    @property
    def head(self) -> int:
        """Number of the newest block."""

    def knows_block(self, block_hash: bytes) -> bool:
        """Whether a block of this hash is in the archive."""

    def nullifier_exists(self, nullifier: bytes) -> bool:
        """Whether a siloed nullifier is in the tree."""

    def fee_juice_balance(self, address: bytes) -> int:
        """Public fee juice of an account."""

    def contract_class_id(self, address: bytes, timestamp: int) -> bytes | None:
        """Class of the contract at this address at this time; None if there is no contract."""


#: ``lookup(view, address, timestamp)``: class id of a deployed contract.
ContractLookup = Callable[[Any, bytes, int], bytes | None]

_BALANCE_SLOTS_KEPT: Final = 4096


class ViewLedger:
    """A ledger over a :class:`~fastnode.rpc.view.View`."""

    __slots__ = ("_chain", "_contracts", "_slots", "_state", "_view")

    def __init__(self, view: Any, contracts: ContractLookup | None = None) -> None:
        self._view = view
        self._chain = view.chain
        self._state = getattr(view, "state", None)
        self._contracts = contracts or genesis_contract_class_id
        self._slots: dict[bytes, bytes] = {}

    @property
    def head(self) -> int:
        return int(self._chain.tip_number)

    def knows_block(self, block_hash: bytes) -> bool:
        return self._chain.block_number_by_hash(block_hash) is not None

    def nullifier_exists(self, nullifier: bytes) -> bool:
        state = self._require_state()
        return state.find_leaves(NULLIFIER_TREE_ID, (nullifier,), state.tip.number)[0] is not None

    def fee_juice_balance(self, address: bytes) -> int:
        state = self._require_state()
        return int.from_bytes(state.public_data_value(self._balance_slot(address), state.tip.number), "big")

    def contract_class_id(self, address: bytes, timestamp: int) -> bytes | None:
        return self._contracts(self._view, address, timestamp)

    def _balance_slot(self, address: bytes) -> bytes:
        slot = self._slots.get(address)
        if slot is None:
            if len(self._slots) >= _BALANCE_SLOTS_KEPT:
                self._slots.clear()
            slot = self._slots[address] = fee_juice_balance_leaf_slot(address)
        return slot

    def _require_state(self) -> Any:
        if self._state is None:
            raise ServerError("The world state is not loaded: transactions cannot be checked")
        return self._state


def genesis_contract_class_id(view: Any, address: bytes, _timestamp: int) -> bytes | None:
    """Class of a contract that exists from genesis."""
    instance = view.chain.contract_instance_json(address)
    return None if instance is None else encode.from_hex(orjson.loads(instance)["currentContractClassId"])
