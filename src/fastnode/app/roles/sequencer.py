"""The sequencer of a node with ``--sequencer``, and the validator that attests to the checkpoints of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fastnode.app.ground.effects import settings_with
from fastnode.app.ground.part import Part
from fastnode.building.budget import BlockOptions
from fastnode.config.config_keys import ATTESTING, BLOCKS, CHECKPOINTS, VOTES
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
    from fastnode.archiver.queries import ChainInfo
    from fastnode.building.acceptance import AcceptanceLimits
    from fastnode.config.configuration import ConfigView
    from fastnode.config.settings import Settings
    from fastnode.sequencing.l1_publication import L1Publication
    from fastnode.serving.server import RpcServer
    from fastnode.view import Committed

__all__ = ["SequencerPart", "options_of", "times_of"]


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
        blocks = core.configuration.attach(BLOCKS, self._reconfigure)
        checkpoints = core.configuration.attach(CHECKPOINTS, self._reconfigure)
        self._options: Callable[[], SequencerOptions] = lambda: options_of(settings, chain, blocks, checkpoints)
        self._times: Callable[[], InvalidationTimes] = lambda: times_of(settings_with(settings, checkpoints))
        options = self._options()
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
        self._invalidation = Invalidation(writer.reader, lambda: follower.invalid_checkpoint, self._times())
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
            invalidation=self._invalidation,
            peers=attestations,
        )
        self._sequencer = Sequencer(parts, options)
        follower.is_published = self._sequencer.is_published
        if not settings.fisherman_mode:
            mempool.watch_accepted(candidates.on_accepted)

    def _reconfigure(self, _view: ConfigView, _changed: frozenset[str]) -> None:
        options, times = self._options(), self._times()
        self._sequencer.reconfigure(lambda _before: options)
        self._invalidation.reconfigure(member_s=times.member_s, other_s=times.other_s)

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


def options_of(settings: Settings, chain: ChainInfo, blocks: ConfigView, checkpoints: ConfigView) -> SequencerOptions:
    """Options of the sequencer with the current configuration."""
    return SequencerOptions.of(
        settings_with(settings, blocks, checkpoints),
        chain,
        BlockOptions.of(blocks),
        blocks_min=checkpoints["minBlocksForCheckpoint"],
        invalidates=not checkpoints["skipInvalidateBlockAsProposer"],
    )


def _attest(
    core: Core, writer: L1Writer, peers: Peers, limits: Callable[[], AcceptanceLimits]
) -> tuple[Validator, PeerAttestations]:
    """Validator that attests to the checkpoints of others, and the attestations of others to ours."""
    configured = core.configuration.attach(ATTESTING)
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
            signs=lambda: not configured["fishermanMode"],
            trusts_proposals=lambda: bool(configured["skipCheckpointProposalValidation"]),
        )
    )
    peers.watch_checkpoints(validator.offer)
    peers.watch_attestations(pool.add)
    return validator, PeerAttestations(gossip, pool, lambda: configured["attestationPollingIntervalMs"] / 1000)


def _voting(core: Core, writer: L1Writer, publication: L1Publication) -> Voting:
    settings, chain = core.foundation.settings, core.foundation.data.store.chain
    factory = settings.slash_factory_address
    return Voting(
        VotingParts(
            reader=writer.reader,
            door=writer.keys,
            publisher=publication,
            simulator=writer.publishers.simulator,
            configuration=core.configuration.attach(VOTES),
            offenses=lambda: core.validator_watch.known(core.views.newest),
            chain_id=chain.l1_chain_id,
            governance=_address_of(chain.node_info, "governanceProposerAddress"),
            slash_factory=None if factory is None else encode.from_hex(factory),
        )
    )


def _address_of(node_info: Mapping[str, Any], name: str) -> bytes | None:
    text = node_info["l1ContractAddresses"].get(name)
    return None if text is None else encode.from_hex(text)


def times_of(settings: Settings) -> InvalidationTimes:
    return InvalidationTimes(
        member_s=settings.seconds_before_invalidating_block_as_committee_member,
        other_s=settings.seconds_before_invalidating_block_as_non_committee_member,
    )
