"""One checkpoint from its event: call data, attestations, blobs, blocks.

    fetch      call data, attestations, blobs       beside one another
    prove      blobs of many checkpoints            one sum for all (protocol/kzg.py)
    derive     blocks                               shortly before they are stored

Blocks that are stored already because somebody has proposed them need no blobs, if they give the hashes of these.

What is found is proven by hashes: the call data by the two of the event, the blobs by their versioned hashes, these by
the header.  Replaying the blocks shows whether they are right.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import field
from typing import Final

from fastnode.archiver.queries import ChainView, stored_block
from fastnode.errors import (
    BlobsUnavailable,
    DecodeError,
    FastnodeError,
    UpstreamError,
    UpstreamFault,
    UpstreamUnavailable,
)
from fastnode.log import log_facts
from fastnode.protocol.blob_decoding import checkpoint_of, decode_blocks
from fastnode.protocol.blobs import checkpoint_blob_fields
from fastnode.protocol.checkpoint import Checkpoint, L1PublishedData, PublishedCheckpoint
from fastnode.protocol.constants import FIELDS_PER_BLOB
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.protocol.kzg import BLOB_BYTES, blob_commitment, blobs_hash, blobs_of_fields, versioned_hash
from fastnode.protocol.releases import TreeRules
from fastnode.records import dataclass
from fastnode.sources.blobs.base import BlobRequest
from fastnode.sources.blobs.fetcher import BlobFetcher
from fastnode.sources.l1.abi import hex_data
from fastnode.sources.l1.attestation_check import AttestationCheck
from fastnode.sources.l1.endpoints import L1Block, L1Client, L1Endpoint
from fastnode.sources.l1.proposal_events import PlacedEvent
from fastnode.sources.l1.proposals import Proposal, ProposedCheckpoint
from fastnode.sources.l1.propose_calls import find_in_trace, find_in_transaction
from fastnode.sources.l1.rollup import RollupFacts
from fastnode.sources.l1.service import L1Reader

__all__ = ["CheckpointDerivation", "DerivedCheckpoint", "FetchedCheckpoint"]

logger = logging.getLogger(__name__)

#: That are fetched for one checkpoint: L1 allows fewer in a transaction, and zeros may follow what a checkpoint needs.
_BLOBS_MAX: Final = 16

assert BLOB_BYTES == FIELDS_PER_BLOB * FIELD_BYTES


@dataclass(frozen=True, slots=True)
class FetchedProposal:
    """A proposal with what was found of its content, as long as ``refusal`` does not say that its committee does not
    stand behind it: its ``checkpoint``, where the blocks are stored already, or its blobs.

    Blobs with commitments are only said to be these.  Both by versioned hashes.
    """

    placed: PlacedEvent
    proposal: Proposal
    checkpoint: Checkpoint | None = None
    blobs: Mapping[bytes, bytes] = field(default_factory=dict)
    commitments: Mapping[bytes, bytes] = field(default_factory=dict)
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class FetchedCheckpoint:
    """All proposals of a checkpoint on L1's chain, in its order: what was found by each event, or why nothing was."""

    facts: RollupFacts
    events: Sequence[PlacedEvent]
    found: Sequence[FetchedProposal | FastnodeError]
    near_tip: bool
    rules: TreeRules

    @property
    def number(self) -> int:
        return self.events[0].event.number

    @property
    def claims(self) -> list[tuple[bytes, bytes]]:
        """Commitments and blobs that are to be proven."""
        proposals = [found for found in self.found if isinstance(found, FetchedProposal)]
        return [(found.commitments[item], found.blobs[item]) for found in proposals for item in found.commitments]


@dataclass(frozen=True, slots=True)
class DerivedCheckpoint:
    """``published`` None: its committee does not stand behind it, as ``refusal`` says."""

    placed: PlacedEvent
    proposal: Proposal
    published: PublishedCheckpoint | None
    refusal: str = ""

    @property
    def number(self) -> int:
        return self.placed.event.number


def proposed_checkpoint(stored: ChainView, number: int, proposal: Proposal) -> Checkpoint | None:
    """The checkpoint of a proposal whose blocks are stored: as those of the checkpoint of this number, or as proposed
    ones behind the newest checkpoint.

    The archive root behind the last of them says that they are the same; all other hashes are checked when it is
    stored.
    """
    known = stored.checkpoint(number)
    if known is not None and known.header_hash == proposal.header.hash():
        numbers = range(known.last_block - known.block_count + 1, known.last_block + 1)
        blocks = [stored_block(stored, item) for item in numbers]
        if blocks[-1].archive.root == proposal.archive_root:
            modifier = proposal.fee_asset_price_modifier
            return Checkpoint(blocks[-1].archive, proposal.header, tuple(blocks), number, modifier)
    if number != stored.tips.checkpointed.checkpoint.number + 1:
        return None
    last = stored.block_number_by_archive(proposal.archive_root)
    first = stored.tips.checkpointed.block.number + 1
    if last is None or last < first:
        return None
    blocks = [stored_block(stored, item) for item in range(first, last + 1)]
    return Checkpoint(blocks[-1].archive, proposal.header, tuple(blocks), number, proposal.fee_asset_price_modifier)


class CheckpointDerivation:
    """Usable from any thread.  ``traces``: nodes that trace transactions; None: those of the reader.
    ``checks_attestations``: false while checkpoints are stored whoever has attested to them."""

    def __init__(
        self,
        reader: L1Reader,
        blobs: BlobFetcher,
        traces: L1Client | None,
        checks_attestations: Callable[[], bool] = lambda: True,
    ) -> None:
        self._reader = reader
        self._blobs = blobs
        self._traces = traces
        self._checks_attestations = checks_attestations
        self._check: AttestationCheck | None = None
        #: The checkpoint whose blobs no place has yet.
        self.waiting_for: BlobsUnavailable | None = None

    def fetch(
        self, facts: RollupFacts, head: L1Block, events: Sequence[PlacedEvent], near_tip: bool, stored: ChainView
    ) -> FetchedCheckpoint:
        """Fetch all that is needed of a checkpoint, by all events of L1's chain that have its number and archive root,
        in the order of L1.  Errors are kept: an earlier one does not matter where a later proposal can be read."""
        found: list[FetchedProposal | FastnodeError] = []
        for placed in events:
            try:
                found.append(self._fetch(facts, head, placed, near_tip, stored))
            except (UpstreamError, DecodeError, BlobsUnavailable) as error:
                found.append(error)
        return FetchedCheckpoint(facts, events, found, near_tip, stored.chain.release.trees)

    def prove(self, group: Sequence[Future[FetchedCheckpoint]]) -> frozenset[int]:
        """Verify the blobs of many checkpoints together, when they are there; the numbers of those whose blobs are what
        they were taken for.  All of them, unless a source lies: then each is looked at alone."""
        fetched = [future.result() for future in group if future.exception() is None]
        if self._blobs.are_proven([claim for checkpoint in fetched for claim in checkpoint.claims]):
            return frozenset(checkpoint.number for checkpoint in fetched)
        return frozenset(checkpoint.number for checkpoint in fetched if self._blobs.are_proven(checkpoint.claims))

    def derive(self, fetched: Future[FetchedCheckpoint], proven: Future[frozenset[int]]) -> DerivedCheckpoint:
        """A checkpoint from what was fetched.  The first proposal that its committee stands behind counts.  Where there
        is none, the last one is what L1 has now: the others have been taken back.

        For the last one UpstreamUnavailable; UpstreamFault when L1 contradicts itself; BlobsUnavailable.
        """
        checkpoint = fetched.result()
        is_proven = checkpoint.number in proven.result()
        *earlier, last = zip(checkpoint.events, checkpoint.found, strict=True)
        for placed, found in earlier:
            try:
                derived = self._derive(checkpoint, found, is_proven)
            except (UpstreamError, DecodeError, BlobsUnavailable) as error:
                shown = log_facts(checkpoint=placed.event.number, tx=placed.event.tx_hash, reason=str(error))
                logger.info("a proposal that was made again cannot be read", extra=shown)
                continue
            if derived.published is not None:
                return derived
        return self._derive(checkpoint, last[1], is_proven)

    def _fetch(
        self, facts: RollupFacts, head: L1Block, placed: PlacedEvent, near_tip: bool, stored: ChainView
    ) -> FetchedProposal:
        """``stored``: where its blocks may be already, as proposed ones; then no blob is fetched.

        Its attestations are judged before anything else is: without them it may have any content.
        """
        event = placed.event
        proposal = find_in_transaction(placed.transaction, facts.signing_domain, event)
        if proposal is None:
            proposal = self._trace(facts, event)
        refusal = self._refusal_of(facts, head, proposal)
        if refusal is not None:
            return FetchedProposal(placed, proposal, refusal=refusal)
        with _content_of(event):
            proposal.check_fields()
            if blobs_hash(event.versioned_hashes) != proposal.header.blobs_hash:
                raise UpstreamFault(f"checkpoint {event.number}: the blobs of its event are not those of its header")
            mana, mana_limit = proposal.header.total_mana_used, self._reader.mana_limit(facts)
            if mana > mana_limit:
                raise UpstreamFault(f"checkpoint {event.number} uses {mana} mana, the rollup allows {mana_limit}")
            checkpoint = proposed_checkpoint(stored, event.number, proposal)
            if checkpoint is not None and self._is_published(checkpoint, event):
                return FetchedProposal(placed, proposal, checkpoint)
            if len(event.versioned_hashes) > _BLOBS_MAX:
                raise DecodeError(f"it has {len(event.versioned_hashes)} blobs")
            known = {versioned_hash(commitment): commitment for commitment in proposal.commitments}
            commitments = {item: known[item] for item in event.versioned_hashes if item in known}
            return FetchedProposal(
                placed,
                proposal,
                blobs=dict(zip(event.versioned_hashes, self._fetch_blobs(placed, near_tip, commitments), strict=True)),
                commitments=commitments,
            )

    def _derive(
        self, fetched: FetchedCheckpoint, found: FetchedProposal | FastnodeError, is_proven: bool
    ) -> DerivedCheckpoint:
        if isinstance(found, FastnodeError):
            raise found
        placed, proposal, facts = found.placed, found.proposal, fetched.facts
        if found.refusal:
            return DerivedCheckpoint(placed, proposal, None, found.refusal)
        with _content_of(placed.event):
            checkpoint = found.checkpoint or checkpoint_of(
                placed.event.number,
                proposal.header,
                proposal.archive_root,
                proposal.fee_asset_price_modifier,
                decode_blocks(_joined(self._proven_blobs(found, fetched.near_tip, is_proven)), fetched.rules),
                chain_id=facts.chain_id,
                version=facts.version,
                rules=fetched.rules,
            )
            attestations = proposal.attestations(facts.target_committee_size)
        block = placed.block
        l1 = L1PublishedData(block.number, block.timestamp, block.hash)
        return DerivedCheckpoint(placed, proposal, PublishedCheckpoint(checkpoint, l1, attestations))

    def _is_published(self, checkpoint: Checkpoint, event: ProposedCheckpoint) -> bool:
        """True if the blobs on L1 are those of the stored blocks.  Others derive the chain from them, so else they
        are read.  Commits to the blobs: 0.03 ms for each field."""
        blobs = blobs_of_fields(checkpoint_blob_fields(checkpoint.blocks))
        if [versioned_hash(blob_commitment(blob)) for blob in blobs] != list(event.versioned_hashes):
            reason = "the blobs on L1 are not those of the proposed blocks, and are read"
            logger.warning(
                "a proposed checkpoint is not what was published",
                extra=log_facts(checkpoint=event.number, reason=reason),
            )
            return False
        if self._blobs.has_upload:
            self._blobs.hand_on(dict(zip(event.versioned_hashes, blobs, strict=True)))
        return True

    def _trace(self, facts: RollupFacts, event: ProposedCheckpoint) -> Proposal:
        def find(endpoint: L1Endpoint) -> Proposal | str:
            return self._blobs.turns.run(lambda: find_in_trace(endpoint, facts.signing_domain, event))

        found = self._reader.run(find) if self._traces is None else self._traces.run(find)
        if isinstance(found, str):
            raise UpstreamUnavailable(found)
        return found

    def _refusal_of(self, facts: RollupFacts, head: L1Block, proposal: Proposal) -> str | None:
        if self._check is None or self._check.facts is not facts:
            self._check = AttestationCheck(facts)
        check = self._check
        if facts.target_committee_size == 0 or not self._checks_attestations():
            return None
        return self._reader.ask(head, lambda endpoint: check.refusal_of(endpoint, proposal, head))

    def _proven_blobs(self, found: FetchedProposal, near_tip: bool, is_proven: bool) -> list[bytes]:
        """Blobs in their order; asked for once more, each then proven by itself, if they are not those of L1."""
        if not is_proven:
            return self._fetch_blobs(found.placed, near_tip, {})
        if self._blobs.has_upload:
            self._blobs.hand_on({item: found.blobs[item] for item in found.commitments})
        return [found.blobs[item] for item in found.placed.event.versioned_hashes]

    def _fetch_blobs(self, placed: PlacedEvent, near_tip: bool, commitments: Mapping[bytes, bytes]) -> list[bytes]:
        """As :meth:`BlobFetcher.fetch`."""
        event, block = placed.event, placed.block
        request = BlobRequest(
            checkpoint=event.number,
            versioned_hashes=event.versioned_hashes,
            block_number=block.number,
            block_hash=block.hash,
            block_timestamp=block.timestamp,
            read_beacon_root=lambda: self._beacon_root(block),
            commitments=commitments,
        )
        waiting = self.waiting_for
        try:
            blobs = self._blobs.fetch(request, near_tip=near_tip)
        except BlobsUnavailable as error:
            if waiting is None or event.number <= waiting.checkpoint:
                self.waiting_for = error
            raise
        if waiting is not None and waiting.checkpoint == event.number:
            self.waiting_for = None
        return blobs

    def _beacon_root(self, block: L1Block) -> bytes | None:
        """Asked for where it is needed: a block that is known by its logs alone has none."""
        if block.beacon_root is not None:
            return block.beacon_root
        call = ("eth_getBlockByHash", [hex_data(block.hash), False])
        answer = self._reader.run(lambda endpoint: endpoint.results([call]))[0]
        return None if answer is None else L1Block.from_json(answer).beacon_root


@contextmanager
def _content_of(event: ProposedCheckpoint) -> Iterator[None]:
    """UpstreamFault for what no checkpoint can be.

    No provider is at fault: the commitments to the blobs are those of the transaction on L1.
    """
    try:
        yield
    except DecodeError as error:
        what = f"checkpoint {event.number} counts on L1, and has content that no checkpoint can have: {error}"
        raise UpstreamFault(f"{what}; the chain goes on when L1 gives it up") from error


def _joined(blobs: Sequence[bytes]) -> bytes:
    """The blob fields of a checkpoint."""
    *whole, last = blobs or [b""]
    return b"".join([blob.ljust(BLOB_BYTES, b"\0") for blob in whole]) + last.ljust(
        -(-len(last) // FIELD_BYTES) * FIELD_BYTES, b"\0"
    )
