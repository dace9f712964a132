"""Subject of a proof of an epoch, collected from the stored chain and compared with L1.

Every stored checkpoint was replayed when it came, so its roots are those of its blocks.  Here it is made sure that L1
has the same ones: what is proven is what is on L1, not what this node believes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from fastnode.archiver.messages import in_hash_before
from fastnode.archiver.queries import ChainView, StoredCheckpoint, stored_block
from fastnode.errors import EpochNotProven
from fastnode.protocol.blobs import checkpoint_blob_fields
from fastnode.protocol.checkpoint import CheckpointHeader, packed_attestations
from fastnode.protocol.out_hash import epoch_out_hash
from fastnode.proving.batched_blob import BatchedBlob, batch
from fastnode.publishing.propose import Attestations, EpochProof
from fastnode.records import dataclass
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.endpoints import L1Endpoint, contract_call
from fastnode.sources.l1.rollup import RollupFacts

if TYPE_CHECKING:
    from fastnode.protocol.block import L2Block

__all__ = ["CHECKPOINTS_MAX", "EpochInputs", "collect", "next_epoch"]

#: Checkpoints in one proof.
CHECKPOINTS_MAX: Final = 32
# Places in the contract's record of a checkpoint.
_ARCHIVE, _HEADER_HASH, _COMMITMENTS_HASH = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochInputs:
    """Checkpoints ``start`` to ``end`` of one epoch, with their blocks, and all that the contract is told of them."""

    epoch: int
    start: int
    end: int
    previous_archive: bytes
    end_archive: bytes
    out_hash: bytes
    #: Coinbase and sum of the fees of each checkpoint.
    fees: tuple[tuple[bytes, int], ...]
    #: Of each checkpoint, in the releases whose headers count fees; else none.
    headers: tuple[CheckpointHeader, ...]
    #: The Inbox's rolling hash before the first one; 0 in the releases that have none.
    previous_inbox: bytes
    attestations: Attestations
    blob: BatchedBlob
    blocks: tuple[tuple[L2Block, ...], ...]

    def proof(self, prover_id: bytes, proof: bytes) -> EpochProof:
        """Inputs that are sent to L1."""
        return EpochProof(
            start=self.start,
            end=self.end,
            previous_archive=self.previous_archive,
            end_archive=self.end_archive,
            out_hash=self.out_hash,
            prover_id=prover_id,
            fees=self.fees,
            headers=self.headers,
            previous_inbox=self.previous_inbox,
            blob_inputs=self.blob.inputs,
            attestations=self.attestations,
            proof=proof,
        )


def next_epoch(
    chain: ChainView, proven: int, *, current_epoch: int, is_partial: bool, proof_epochs: int
) -> tuple[int, int, int] | None:
    """Epoch, first and last checkpoint of what can be proven next; None when nothing can.

    ``proven``: newest proven checkpoint.  An epoch can be proven when no checkpoint can come to it any more, or at any
    time if parts of epochs are proven; EpochNotProven when its time is over.
    """
    newest = chain.tips.checkpointed.checkpoint.number
    if newest <= proven:
        return None
    first_unproven = _required(chain, proven + 1)
    epoch = first_unproven.slot_number // chain.chain.epoch_duration
    numbers = chain.checkpoint_numbers_of_epoch(epoch)
    start, end = numbers[0], numbers[-1]
    if current_epoch > epoch + proof_epochs:
        raise EpochNotProven(f"the time to prove epoch {epoch} is over: it is epoch {current_epoch}")
    last_slot = (epoch + 1) * chain.chain.epoch_duration - 1
    is_complete = current_epoch > epoch or _required(chain, end).slot_number == last_slot
    if not is_complete and not is_partial:
        return None
    return epoch, start, min(end, start + CHECKPOINTS_MAX - 1)


def collect(chain: ChainView, epoch: int, start: int, end: int) -> EpochInputs:
    """From the stored chain.  EpochNotProven when its parts do not fit each other.

    Commits to all blobs and opens them: 0.2 s for each, not for the event loop.
    """
    checkpoints = [_required(chain, number) for number in range(start, end + 1)]
    blocks = tuple(
        tuple(stored_block(chain, number) for number in range(item.start_block, item.last_block + 1))
        for item in checkpoints
    )
    out_hash = epoch_out_hash([item.out_hash for item in checkpoints])
    headers = [CheckpointHeader.from_json(orjson.loads(item.header_json), "header") for item in checkpoints]
    if headers[-1].epoch_out_hash != out_hash:
        raise EpochNotProven(f"the out hash of checkpoint {end} is not that of its epoch's messages")
    fees = tuple(
        (header.coinbase, sum(block.header.total_fees for block in content))
        for header, content in zip(headers, blocks, strict=True)
    )
    return EpochInputs(
        epoch=epoch,
        start=start,
        end=end,
        previous_archive=blocks[0][0].header.last_archive.root,
        end_archive=blocks[-1][-1].archive.root,
        out_hash=out_hash,
        fees=fees,
        headers=tuple(headers) if chain.chain.release.counts_fees else (),
        previous_inbox=in_hash_before(chain, start),
        attestations=_attestations_of(checkpoints[-1]),
        blob=batch([checkpoint_blob_fields(content) for content in blocks], chain.chain.release.blob_separators),
        blocks=blocks,
    )


def _attestations_of(checkpoint: StoredCheckpoint) -> Attestations:
    """As they were proposed."""
    return Attestations(*packed_attestations(checkpoint.attestations))


def require_same_on_l1(endpoint: L1Endpoint, facts: RollupFacts, chain: ChainView, inputs: EpochInputs) -> None:
    """EpochNotProven unless L1 has these checkpoints, archive by archive and header by header."""
    numbers = range(inputs.start, inputs.end + 1)
    calls = [contract_call(facts.rollup, contracts.CHECKPOINT, number) for number in numbers]
    answers = [contracts.CHECKPOINT.decode(answer) for answer in endpoint.results(calls)]
    for number, answer, content in zip(numbers, answers, inputs.blocks, strict=True):
        if answer[_ARCHIVE] != content[-1].archive.root or answer[_HEADER_HASH] != _required(chain, number).header_hash:
            raise EpochNotProven(f"checkpoint {number} is another one on L1")
    if answers[-1][_COMMITMENTS_HASH] != inputs.blob.commitments_hash:
        raise EpochNotProven(f"the blobs up to checkpoint {inputs.end} are others on L1")


def _required(chain: ChainView, number: int) -> StoredCheckpoint:
    checkpoint = chain.checkpoint(number)
    if checkpoint is None:
        raise EpochNotProven(f"checkpoint {number} is not stored")
    return checkpoint
