"""The sequencer of a node with ``--sequencer``, and the validator that attests to the checkpoints of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fastnode.app.ground.effects import BUILDING_KEYS as _BUILT
from fastnode.app.ground.part import Part
from fastnode.config.configuration import NodeConfiguration
from fastnode.kernels import encode
from fastnode.sequencing.attestation_pool import AttestationPool
from fastnode.sequencing.attestations import PeerAttestations
from fastnode.sequencing.candidates import Candidates
from fastnode.sequencing.chain import ProposedChain
from fastnode.sequencing.gossip import ValidatorGossip
from fastnode.sequencing.invalidation import Invalidation, InvalidationTimes
from fastnode.sequencing.options import SequencerOptions
from fastnode.sequencing.proposer import Sequencer, SequencerParts
from fastnode.sequencing.validator import Validator, ValidatorParts
from fastnode.sequencing.voting import Voting, VotingParts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from fastnode.app.roles.l1_writer import L1Writer
    from fastnode.app.roles.peers import Peers
    from fastnode.app.stages.core import Core
    from fastnode.building.acceptance import AcceptanceLimits
    from fastnode.config.settings import Settings
    from fastnode.sequencing.l1_publication import L1Publication
    from fastnode.serving.server import RpcServer
    from fastnode.view import Committed

__all__ = ["SequencerPart"]

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


class NoValidator:
    """Nobody attests to the checkpoints of others where there are no peers."""

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def on_committed(self, committed: Committed) -> None:
        pass

    def troubles(self) -> dict[str, str | None]:
        return {}

    def describe(self) -> dict[str, Any]:
        return {}


class SequencerPart(Part):
    """``peers`` None: only the keys that are here attest.  StartError where there is nothing to sign with."""

    def __init__(self, core: Core, writer: L1Writer, peers: Peers | None) -> None:
        foundation, mempool, follower = core.foundation, core.mempool, core.source.follower
        assert follower is not None  # the chain comes from L1
        settings, chain, condition = foundation.settings, foundation.data.store.chain, core.condition
        self._writer = writer
        options = SequencerOptions.of(settings, chain)
        candidates = Candidates(mempool.pool, age_s=options.pool_age_s)
        proposed = ProposedChain(core.ingestor, foundation.data.state, foundation.control.wake)

        def is_settled() -> bool:
            read_at = writer.reader.newest_timestamp  # before the state that is compared, which is not older then
            return writer.is_settled(read_at) and writer.reader.is_current and follower.has_read_l1

        proposed.leave(writer.guard.newest, is_settled)
        follower.chores = proposed.work
        self._validator: Validator | NoValidator = NoValidator()
        attestations = None
        if peers is not None:
            self._validator, attestations = _attest(core, writer, peers, self._limits)
        publication = writer.for_checkpoints(signs=not settings.fisherman_mode)
        self._voting = None if settings.fisherman_mode else _voting(core, writer, publication)
        core.configuration.on_change(_VOTING_KEYS, lambda _new, _changed: None)
        invalidation = Invalidation(writer.reader, lambda: follower.invalid_checkpoint, _times_of(settings))
        parts = SequencerParts(
            reader=writer.reader,
            chain=proposed,
            mempool=mempool,
            candidates=candidates,
            door=writer.keys,
            publisher=publication,
            voting=self._voting,
            guard=writer.guard,
            tidy=writer.tidy,
            is_ready=lambda: follower.has_caught_up and not condition.is_importing,
            is_paused=lambda: condition.is_paused or condition.holds_blocks,
            invalidation=invalidation,
            peers=attestations,
        )
        self._sequencer: Sequencer = Sequencer(parts, options)
        sequencer = self._sequencer
        follower.is_published = sequencer.is_published
        if not settings.fisherman_mode:
            mempool.watch_accepted(candidates.on_accepted)

        def change(new: NodeConfiguration, _changed: frozenset[str]) -> None:
            changed = replace(settings, **{attribute: new[key] for key, attribute in (_BUILT | _KEYS).items()})
            options = SequencerOptions.of(changed, chain, new["minValidTxsPerBlock"])
            sequencer.reconfigure(lambda _before: options)
            times = _times_of(changed)
            invalidation.reconfigure(member_s=times.member_s, other_s=times.other_s)

        core.configuration.on_change((*_BUILT, *_KEYS, "minValidTxsPerBlock"), change)

    def _limits(self) -> AcceptanceLimits:
        return self._sequencer.options.acceptance

    def start(self, public: RpcServer) -> None:
        self._sequencer.start()
        self._validator.start()

    def stop(self) -> None:
        """Waits until what is being sent is decided or left; what is in flight stays on disk."""
        self._writer.stop()  # nothing waits for L1 any longer
        self._validator.stop()
        self._sequencer.stop()
        if self._voting is not None:
            self._voting.close()

    def on_committed(self, committed: Committed) -> None:
        self._validator.on_committed(committed)

    def troubles(self) -> Mapping[str, str | None]:
        return self._validator.troubles() | self._sequencer.troubles()

    def states(self) -> Mapping[str, str]:
        return {"sequencer": self._sequencer.summary()}

    def describe(self) -> Mapping[str, Any]:
        return {"sequencer": self._describe()}

    def _describe(self) -> dict[str, Any]:
        attestations = self._validator.describe()
        told: dict[str, Any] = {"attestations": attestations} if attestations else {}
        if self._voting is not None:
            told["votes"] = self._voting.describe()
        return self._sequencer.describe() | told

    def metrics(self) -> Iterable[Metric]:
        from fastnode.metrics.proposing import sequencer_metrics

        return sequencer_metrics(self._describe())


def _attest(
    core: Core, writer: L1Writer, peers: Peers, limits: Callable[[], AcceptanceLimits]
) -> tuple[Validator, PeerAttestations]:
    """Validator that attests to the checkpoints of others, and the attestations of others to ours."""
    settings = core.foundation.settings
    gossip, pool = ValidatorGossip(peers.publish), AttestationPool()
    validator = Validator(
        ValidatorParts(
            reader=writer.reader,
            view=lambda: core.views.newest,
            was_executed=peers.proposed.was_executed,
            door=writer.keys,
            gossip=gossip,
            guard=writer.attested_guard,
            limits=limits,
            is_paused=lambda: core.condition.is_paused,
            signs=not settings.fisherman_mode,
        )
    )
    peers.watch_checkpoints(validator.offer)
    peers.watch_attestations(pool.add)
    return validator, PeerAttestations(gossip, pool, settings.validator_attestations_polling_interval_ms / 1000)


def _voting(core: Core, writer: L1Writer, publication: L1Publication) -> Voting:
    settings, chain = core.foundation.settings, core.foundation.data.store.chain
    factory = settings.slash_factory_address
    return Voting(
        VotingParts(
            reader=writer.reader,
            door=writer.keys,
            publisher=publication,
            simulator=writer.publishers.simulator,
            configuration=core.configuration,
            offenses=lambda: core.validator_watch.known(core.views.newest),
            chain_id=chain.l1_chain_id,
            governance=_address_of(chain.node_info, "governanceProposerAddress"),
            slash_factory=None if factory is None else encode.from_hex(factory),
        )
    )


def _address_of(node_info: Mapping[str, Any], name: str) -> bytes | None:
    text = node_info["l1ContractAddresses"].get(name)
    return None if text is None else encode.from_hex(text)


def _times_of(settings: Settings) -> InvalidationTimes:
    return InvalidationTimes(
        member_s=settings.seconds_before_invalidating_block_as_committee_member,
        other_s=settings.seconds_before_invalidating_block_as_non_committee_member,
    )
