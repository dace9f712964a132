"""Optional facts from the contracts on L1: the circuits of the rollup, the rounds of its slasher.

A contract of another form, or an L1 node that does not read storage, leaves them unknown.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from fastnode.errors import DecodeError, UpstreamRejection
from fastnode.kernels import encode
from fastnode.log import log_facts
from fastnode.outgoing.client import RpcCall
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import hex_data, quantity
from fastnode.sources.l1.endpoints import L1Endpoint, is_revert

__all__ = ["CircuitValues", "SlashingRounds", "read_circuit_values", "read_committee_size", "read_slashing_rounds"]

logger = logging.getLogger(__name__)

#: keccak256("aztec.stf.storage"), where the rollup keeps its state; the two values are 3 and 4 words behind it.
STATE_SLOT: Final = 0x0958201B72D64259285941DFFD868DAC55267471FCC73E8A06E1FD9CF8706361
_VK_TREE_ROOT: Final = 3
_PROTOCOL_CONTRACTS_HASH: Final = 4
_WORD_BYTES: Final = 32


class CircuitValues(NamedTuple):
    """32 bytes each."""

    vk_tree_root: bytes
    protocol_contracts_hash: bytes


class SlashingRounds(NamedTuple):
    """Epochs of a round; rounds between an offense and the vote on it."""

    size_in_epochs: int
    offset_in_rounds: int


def read_circuit_values(endpoint: L1Endpoint, rollup: bytes) -> CircuitValues | None:
    """Values that the circuits of the rollup are built from; None if L1 does not say."""
    answers = endpoint.answers([_storage_call(rollup, _VK_TREE_ROOT), _storage_call(rollup, _PROTOCOL_CONTRACTS_HASH)])
    words = [word for word in map(_word, answers) if word is not None and any(word)]
    return CircuitValues(*words) if len(words) == len(answers) else None


def _storage_call(contract: bytes, offset: int) -> RpcCall:
    return "eth_getStorageAt", [hex_data(contract), quantity(STATE_SLOT + offset), "latest"]


def _word(answer: object) -> bytes | None:
    if not isinstance(answer, str):
        return None
    try:
        word = encode.from_hex(answer)
    except ValueError:
        return None
    return word if len(word) == _WORD_BYTES else None


def read_committee_size(endpoint: L1Endpoint, rollup: bytes) -> int:
    """Members of a committee, 0 if the rollup has none.  UpstreamError, DecodeError."""
    size: int = endpoint.read(rollup, contracts.TARGET_COMMITTEE_SIZE)[0]
    return size


def read_slashing_rounds(endpoint: L1Endpoint, rollup: bytes) -> SlashingRounds | None:
    """Rounds of the rollup's slasher; None if it has none, or one of another form.  UpstreamError, DecodeError."""
    try:
        slasher = endpoint.read(rollup, contracts.SLASHER)[0]
        if not any(slasher):
            return None
        proposer = endpoint.read(slasher, contracts.SLASHING_PROPOSER)[0]
        if not any(proposer):
            return None
        size = endpoint.read(proposer, contracts.ROUND_SIZE_IN_EPOCHS)[0]
        offset = endpoint.read(proposer, contracts.SLASH_OFFSET_IN_ROUNDS)[0]
    except (UpstreamRejection, DecodeError) as error:
        if isinstance(error, UpstreamRejection) and not is_revert(error):
            raise
        logger.debug("slasher of another form", extra=log_facts(l1=endpoint.name, reason=str(error)))
        return None
    return SlashingRounds(size, offset) if size > 0 else None
