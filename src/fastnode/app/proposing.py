"""The sequencer put together: imported only where one is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fastnode.app.effects import BUILDING_KEYS as _BUILT
from fastnode.config.configuration import NodeConfiguration
from fastnode.errors import StartError
from fastnode.kernels import encode
from fastnode.sequencing.attestation_pool import AttestationPool
from fastnode.sequencing.attesting import PeerAttestations
from fastnode.sequencing.candidates import Candidates
from fastnode.sequencing.chain import ProposedChain
from fastnode.sequencing.gossip import ValidatorGossip
from fastnode.sequencing.invalidation import Invalidation, InvalidationTimes
from fastnode.sequencing.options import SequencerOptions
from fastnode.sequencing.proposer import Sequencer, SequencerParts
from fastnode.sequencing.validator import Validator, ValidatorParts
from fastnode.sequencing.voting import Voting, VotingParts

if TYPE_CHECKING:
    from fastnode.app.condition import Condition
    from fastnode.app.opened import Opened
    from fastnode.app.peers import PeerToPeer
    from fastnode.app.publishing import Publishing
    from fastnode.app.views import Views
    from fastnode.app.watching import Watching
    from fastnode.archiver.ingest import Ingestor
    from fastnode.config.settings import Settings
    from fastnode.mempool.service import Mempool
    from fastnode.protocol.tx import Tx
    from fastnode.sources.follower import Follower

__all__ = ["Proposing"]

#: Keys of the configuration that change how blocks are built, beside those of every builder.
_KEYS: Final = {
    "sequencerPollingIntervalMS": "seq_polling_interval_ms",
    "blockDurationMs": "block_duration_ms",
    "buildCheckpointIfEmpty": "build_checkpoint_if_empty",
    "enforceTimeTable": "enforce_time_table",
    "l1PublishingTime": "l1_publishing_time",
    "publishTxsWithProposals": "publish_txs_with_proposals",
    "attestationPropagationTime": "attestation_propagation_time",
    "skipPublishingCheckpointsPercent": "skip_checkpoint_publish_percent",
    "secondsBeforeInvalidatingBlockAsCommitteeMember": "seconds_before_invalidating_block_as_committee_member",
    "secondsBeforeInvalidatingBlockAsNonCommitteeMember": "seconds_before_invalidating_block_as_non_committee_member",
}

#: Read at each slot.
_VOTING_KEYS: Final = (
    "governanceProposerPayload",
    "slashExecuteRoundsLookBack",
    "slashMaxPayloadSize",
    "slashMaxPenaltyPercentage",
    "slashMinPenaltyPercentage",
    "slashOverridePayload",
    "slashSelfAllowed",
    "slashUnknownPenalty",
    "slashValidatorsAlways",
    "slashValidatorsNever",
)


class Proposing:
    """Sequencer of a node with ``--sequencer``, and its parts.  StartError without L1."""

    def __init__(self, opened: Opened) -> None:
        if opened.following is None or opened.l1 is None:
            raise StartError("--sequencer: the chain must be derived from L1 (--l1-rpc-urls and a place of blobs)")
        self._opened = opened
        self._candidates: Candidates | None = None
        self._sequencer: Sequencer | None = None
        self._chain: ProposedChain | None = None
        self._validator: Validator | None = None
        self._voting: Voting | None = None

    def on_accepted(self, tx: Tx, tx_json: bytes) -> None:
        """A client's transaction is in the pool."""
        if self._candidates is not None:
            self._candidates.on_accepted(tx, tx_json)

    def join(
        self,
        ingestor: Ingestor,
        follower: Follower,
        mempool: Mempool,
        condition: Condition,
        configuration: NodeConfiguration,
        publishing: Publishing,
        views: Views,
        peers: PeerToPeer | None,
        watching: Watching,
    ) -> None:
        """Once the chain is known."""
        opened = self._opened
        reader = opened.l1
        assert reader is not None
        settings, chain = opened.settings, opened.data.store.chain
        options = SequencerOptions.of(settings, chain)
        self._candidates = Candidates(mempool.pool, age_s=options.pool_age_s)
        self._chain = ProposedChain(ingestor, opened.data.state, opened.control.wake)
        self._chain.leave(publishing.guard.newest)
        follower.chores = self._chain.work
        attested = None if peers is None else self._join_peers(peers, views, publishing, condition)
        publisher = publishing.for_checkpoints(signs=not settings.fisherman_mode)
        factory = settings.slash_factory_address
        if not settings.fisherman_mode:
            self._voting = Voting(
                VotingParts(
                    reader=reader,
                    door=publishing.keys,
                    publisher=publisher,
                    simulator=publishing.publishers.simulator,
                    configuration=configuration,
                    offenses=lambda: watching.known(views.newest),
                    chain_id=chain.l1_chain_id,
                    governance=_address_of(chain.node_info, "governanceProposerAddress"),
                    slash_factory=None if factory is None else encode.from_hex(factory),
                )
            )
        configuration.on_change(_VOTING_KEYS, lambda _new, _changed: None)
        invalidation = Invalidation(reader, lambda: follower.invalid_checkpoint, _times_of(settings))
        parts = SequencerParts(
            reader=reader,
            chain=self._chain,
            mempool=mempool,
            candidates=self._candidates,
            door=publishing.keys,
            publisher=publisher,
            voting=self._voting,
            guard=publishing.guard,
            tidy=publishing.tidy,
            is_ready=lambda: follower.has_caught_up and not condition.is_importing,
            is_paused=lambda: condition.is_paused,
            invalidation=invalidation,
            peers=attested,
        )
        self._sequencer = Sequencer(parts, options)
        condition.mention(self._sequencer.troubles)
        condition.tell("sequencer", self._sequencer.summary)
        sequencer = self._sequencer

        def change(new: NodeConfiguration, _changed: frozenset[str]) -> None:
            changed = replace(settings, **{attribute: new[key] for key, attribute in (_BUILT | _KEYS).items()})
            options = SequencerOptions.of(changed, chain, new["minValidTxsPerBlock"])
            sequencer.reconfigure(lambda _before: options)
            times = _times_of(changed)
            invalidation.reconfigure(member_s=times.member_s, other_s=times.other_s)

        configuration.on_change((*_BUILT, *_KEYS, "minValidTxsPerBlock"), change)

    def _join_peers(
        self, peers: PeerToPeer, views: Views, publishing: Publishing, condition: Condition
    ) -> PeerAttestations:
        """Attest to the checkpoints of others, and have theirs of ours."""
        reader = self._opened.l1
        assert reader is not None
        gossip, pool = ValidatorGossip(peers.publish), AttestationPool()
        self._validator = Validator(
            ValidatorParts(
                reader=reader,
                view=lambda: views.newest,
                was_executed=peers.proposed.was_executed,
                door=publishing.keys,
                gossip=gossip,
                guard=publishing.attested_guard,
                limits=lambda: self.sequencer.options.acceptance,
                is_paused=lambda: condition.is_paused,
                signs=not self._opened.settings.fisherman_mode,
            )
        )
        condition.mention(self._validator.troubles)
        views.subscribe(self._validator.on_committed)
        peers.on_checkpoint, peers.on_attestation = self._validator.offer, pool.add
        peers.members = publishing.keys.attesters
        look_s = self._opened.settings.validator_attestations_polling_interval_ms / 1000
        return PeerAttestations(gossip, pool, look_s)

    @property
    def sequencer(self) -> Sequencer:
        assert self._sequencer is not None
        return self._sequencer

    def describe(self) -> dict[str, Any]:
        """For the status page."""
        validator = self._validator
        told: dict[str, Any] = {} if validator is None else {"attestations": validator.describe()}
        if self._voting is not None:
            told["votes"] = self._voting.describe()
        return self.sequencer.describe() | told

    def start(self) -> None:
        self.sequencer.start()
        if self._validator is not None:
            self._validator.start()

    def stop(self) -> None:
        if self._validator is not None:
            self._validator.stop()
        if self._sequencer is not None:
            self._sequencer.stop()
        if self._voting is not None:
            self._voting.close()


def _address_of(node_info: Mapping[str, Any], name: str) -> bytes | None:
    text = node_info["l1ContractAddresses"].get(name)
    return None if text is None else encode.from_hex(text)


def _times_of(settings: Settings) -> InvalidationTimes:
    return InvalidationTimes(
        member_s=settings.seconds_before_invalidating_block_as_committee_member,
        other_s=settings.seconds_before_invalidating_block_as_non_committee_member,
    )
