"""Making blocks, and the checkpoint around them, from what executing their transactions gave.

    checkpoint = CheckpointDraft(variables, number, messages, release)
    block = checkpoint.seal_block(state, effects, mana)     # state is after the block before it
    ...                                                     # give the block to ingestion, then seal the next one
    published = checkpoint.publish(earlier_out_hashes, l1)

Nothing is written here.  What comes out is checked and stored by ingestion, like a block from anywhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fastnode.protocol.blobs import BlobSponge, block_blob_fields, checkpoint_end_marker
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import (
    Checkpoint,
    L1PublishedData,
    PublishedCheckpoint,
    accumulated_fees,
    block_headers_hash,
    header_in_hash,
    header_type,
)
from fastnode.protocol.constants import L1_TO_L2_MESSAGES_PER_BLOCK_MAX
from fastnode.protocol.effects import Body, TxEffect
from fastnode.protocol.effects_tree import effects_root
from fastnode.protocol.fields import FIELD_BYTES, ZERO_FIELD
from fastnode.protocol.header import AppendOnlyTreeSnapshot, BlockHeader, GlobalVariables, StateReference
from fastnode.protocol.kzg import BLOB_BYTES, KnownSum, blob_commitment, blobs_hash, blobs_of_fields, versioned_hash
from fastnode.protocol.out_hash import checkpoint_out_hash, epoch_out_hash, messages_of_block
from fastnode.protocol.releases import Release
from fastnode.world_state.apply import BlockDraft
from fastnode.world_state.state import WorldState

__all__ = ["CheckpointDraft"]


class CheckpointDraft:
    """A checkpoint in the making.  ``variables`` are those of its blocks; their block number is not looked at.

    ``messages``: the L1 to L2 messages that it adds, without padding; ``in_hash_before``: the rolling hash of the Inbox
    before them, in a release whose headers have it.
    """

    def __init__(
        self,
        variables: GlobalVariables,
        number: int,
        messages: Sequence[bytes],
        release: Release,
        in_hash_before: bytes = ZERO_FIELD,
    ) -> None:
        self._variables = variables
        self._release = release
        self._in_hash_before = in_hash_before
        #: Of ``messages``, those that no block has taken yet.
        self._waiting = tuple(messages)
        self._sponge = BlobSponge()
        self._fields: list[bytes] = []
        self.number = number
        self.messages = tuple(messages)
        self.blocks: list[L2Block] = []
        #: To its blobs, 48 bytes each, once it is published.
        self.commitments: tuple[bytes, ...] = ()

    @classmethod
    def of(
        cls,
        blocks: Sequence[L2Block],
        messages: Sequence[bytes],
        release: Release,
        in_hash_before: bytes = ZERO_FIELD,
    ) -> CheckpointDraft:
        """Make it of blocks that are stored already: all of one checkpoint."""
        first = blocks[0]
        draft = cls(first.header.global_variables, first.checkpoint_number, messages, release, in_hash_before)
        draft._waiting = ()
        draft.blocks = list(blocks)
        draft._fields = [block_blob_fields(block) for block in blocks]
        return draft

    def variables_of_block(self, number: int) -> GlobalVariables:
        """The globals of a block of this checkpoint."""
        return replace(self._variables, block_number=number)

    def seal_block(self, state: WorldState, effects: Sequence[TxEffect], mana: int) -> L2Block:
        """The next block, with these effects.  ``state`` must be after the block before it.

        BlockRejected when the content breaks a rule of the trees.
        """
        index, body = len(self.blocks), Body(tuple(effects))
        variables = self.variables_of_block(state.block_number + 1)
        rules = self._release.trees
        root = effects_root(body.tx_effects) if rules.has_effects_root else None

        def seal(last_archive: AppendOnlyTreeSnapshot, after: StateReference) -> BlockHeader:
            unsealed = BlockHeader(last_archive, after, ZERO_FIELD, variables, body.total_fees, mana, root)
            fields = block_blob_fields(L2Block(last_archive, unsealed, body, self.number, index))
            self._sponge = self._sponge.absorb(fields)
            self._fields.append(fields)
            return replace(unsealed, sponge_blob_hash=self._sponge.squeeze())

        draft = BlockDraft(body, self.number, index)
        most = L1_TO_L2_MESSAGES_PER_BLOCK_MAX if rules.has_compact_messages else len(self._waiting)
        block, _ = state.build(draft, self._waiting[:most], seal)
        self._waiting = self._waiting[most:]
        self.blocks.append(block)
        return block

    @property
    def blob_fields(self) -> bytes:
        """All blob fields, joined, with the end marker."""
        fields = b"".join(self._fields)
        return fields + checkpoint_end_marker(len(fields) // FIELD_BYTES + 1)

    @property
    def blobs(self) -> list[bytes]:
        """As they are published, 131072 bytes each."""
        return [blob.ljust(BLOB_BYTES, b"\0") for blob in blobs_of_fields(self.blob_fields)]

    @property
    def out_hash(self) -> bytes:
        """Its own out hash: zero without messages to L1."""
        return checkpoint_out_hash([messages_of_block(block) for block in self.blocks])

    def _commit_to_blobs(self, known: KnownSum | None) -> None:
        first, *others = self.blobs
        self.commitments = (blob_commitment(first, known), *(blob_commitment(blob) for blob in others))

    def publish(
        self, earlier_out_hashes: Sequence[bytes], l1: L1PublishedData, known: KnownSum | None = None
    ) -> PublishedCheckpoint:
        """The complete checkpoint.  ``earlier_out_hashes``: of the checkpoints before it in its epoch; ``known``: the
        sum of the beginning of its first blob.

        Commits to the blobs, which takes some 0.03 ms for each of their fields: not for the event loop.
        """
        first, last = self.blocks[0].header, self.blocks[-1]
        variables = self._variables
        self._commit_to_blobs(known)
        header = header_type(self._release)(
            last_archive_root=first.last_archive.root,
            block_headers_hash=block_headers_hash(
                [block.hash() for block in self.blocks], self._release.separators.block_headers
            ),
            blobs_hash=blobs_hash([versioned_hash(commitment) for commitment in self.commitments]),
            in_hash=header_in_hash(self._release, self.messages, self._in_hash_before),
            epoch_out_hash=epoch_out_hash([*earlier_out_hashes, self.out_hash]),
            slot_number=variables.slot_number,
            timestamp=variables.timestamp,
            coinbase=variables.coinbase,
            fee_recipient=variables.fee_recipient,
            gas_fees=variables.gas_fees,
            total_mana_used=sum(block.header.total_mana_used for block in self.blocks),
            accumulated_fees=accumulated_fees(self.blocks, self._release),
        )
        checkpoint = Checkpoint(last.archive, header, tuple(self.blocks), self.number, fee_asset_price_modifier=0)
        return PublishedCheckpoint(checkpoint, l1, ())
