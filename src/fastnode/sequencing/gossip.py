"""Messages of a validator to its peers: its blocks as they are made, its checkpoints, and its attestations."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from fastnode.errors import PeerUnavailable
from fastnode.log import log_facts
from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.messages.proposals import (
    BlockProposal,
    CheckpointAttestation,
    CheckpointProposal,
    SignedTxs,
    wire_signature,
)
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import Checkpoint

__all__ = ["ValidatorGossip"]

logger = logging.getLogger("fastnode.sequencer")

#: Before the payload of a message, at most.
_ENVELOPE_BYTES: Final = 64


class ValidatorGossip:
    """``publish`` sends to all peers what is of use while a slot lasts; PeerUnavailable.

    Signatures are r 32 | s 32 | v 1.

    What cannot be told is told of in the log: a checkpoint whose attestations are all here needs no peer.
    """

    def __init__(self, publish: Callable[[Topic, bytes, int], None]) -> None:
        self._publish = publish

    def tell_block(
        self,
        block: L2Block,
        in_hash: bytes,
        tx_hashes: Sequence[bytes],
        signature: bytes,
        txs: SignedTxs | None = None,
    ) -> None:
        """One that is stored here, so that peers can ask for its transactions; ``txs`` go with it if a message may be
        so large."""
        index, root = block.index_within_checkpoint, block.archive.root
        proposal = BlockProposal.of(block.header, index, in_hash, root, tx_hashes, signature, txs)
        payload = proposal.to_buffer()
        if txs is not None and len(payload) > Topic.BLOCK_PROPOSAL.bytes_max - _ENVELOPE_BYTES:
            payload = replace(proposal, txs=None).to_buffer()
        self._send(Topic.BLOCK_PROPOSAL, payload, block.header.global_variables.slot_number)

    def tell_checkpoint(self, checkpoint: Checkpoint, signature: bytes) -> CheckpointProposal:
        """After all of its blocks."""
        modifier = checkpoint.fee_asset_price_modifier
        proposal = CheckpointProposal.of(checkpoint.header, checkpoint.archive.root, modifier, signature)
        self._send(Topic.CHECKPOINT_PROPOSAL, proposal.to_buffer(), proposal.slot)
        return proposal

    def tell_attestation(self, proposal: CheckpointProposal, signature: bytes) -> None:
        attestation = CheckpointAttestation(
            proposal.header,
            proposal.archive_root,
            proposal.fee_asset_price_modifier,
            wire_signature(signature),
            proposal.signature,
        )
        self._send(Topic.CHECKPOINT_ATTESTATION, attestation.to_buffer(), proposal.slot)

    def _send(self, topic: Topic, payload: bytes, slot: int) -> None:
        try:
            self._publish(topic, payload, slot)
        except PeerUnavailable as error:
            logger.warning("peers are not told", extra=log_facts(topic=topic.value, reason=str(error)))
