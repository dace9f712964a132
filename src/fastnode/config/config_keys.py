"""The keys of nodeAdmin_getConfig and nodeAdmin_setConfig: one table, from which everything about them is derived.

Releases 4.x and 5.x have most keys in common: :data:`FOUR` and :data:`FIVE` are the keys of each by the names that its
clients use.  A key has the name of 4.x inside of the node, unless only 5.x has it.

Each key names the parts of a node that read it while the node runs, and what turns these parts on.  What no part reads
cannot be changed; the table says why:

    fixed      read at the start only: the refusal names the setting
    absent     belongs to a part that this node does not have
    fault      makes a node of another implementation misbehave, for its tests

A key takes its type, limits, default and help from the setting behind it; a few have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from fastnode.config import needs
from fastnode.config.needs import Need
from fastnode.config.settings import Setting, Settings, rows
from fastnode.records import dataclass
from fastnode.values.arrays import ArrayOf
from fastnode.values.choices import BOOLEAN
from fastnode.values.numbers import Amount, Integer, Number
from fastnode.values.texts import HexText
from fastnode.values.value_type import ValueType

__all__ = [
    "ALLOWED_CALLS",
    "ATTESTING",
    "BLOCKS",
    "CHECKPOINTS",
    "DERIVING",
    "EXECUTION",
    "FAULT",
    "FIVE",
    "FOUR",
    "KEYS",
    "KEYS_BY_NAME",
    "NO_EFFECT",
    "OFFENSES",
    "POLLING",
    "POOL",
    "PROOFS",
    "PROVER",
    "SIGNING",
    "VOTES",
    "ConfigKey",
    "KeySet",
    "Reader",
    "keys_of",
]

_COUNT: Final = Integer(0, 1 << 32)
_SWITCH: Final = BOOLEAN


# ---- readers ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reader:
    """A part of a node that reads keys while it runs.  ``effect``: when a new value is applied, as a clause."""

    name: str
    effect: str


POOL: Final = Reader("pool", "applied at once; a smaller pool retains its best transactions")
ALLOWED_CALLS: Final = Reader("allowed calls", "applied to new transactions; `node_getAllowedPublicSetup` shows it")
PROOFS: Final = Reader(
    "proofs",
    "applied to new transactions, with the verifier of [proofs](proofs.md); a `--proof-verifier-command` is always "
    "asked",
)
POLLING: Final = Reader("polling", "applied from the next poll of the followed node on")
DERIVING: Final = Reader("derivation", "applied to checkpoints that are read from L1 from then on")
BLOCKS: Final = Reader("blocks", "applied from the next block on; a sequencer's from the next slot on")
CHECKPOINTS: Final = Reader("checkpoints", "applied from the next slot on")
SIGNING: Final = Reader("signing", "applied to the next duty: nothing is proposed, attested or voted with these keys")
ATTESTING: Final = Reader("attesting", "applied to the next proposal of another validator")
EXECUTION: Final = Reader("execution", "applied to the next block proposal of a peer")
VOTES: Final = Reader("votes", "applied to the votes of the next slot")
OFFENSES: Final = Reader("offenses", "applied to offenses that are found from then on")
PROVER: Final = Reader("prover", "applied to the next epoch that is proven")


# ---- keys -------------------------------------------------------------------------------------------


def _never(_settings: Settings) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """One key: ``setting`` is None if only setConfig has it.

    ``needs`` None: its readers are parts of every node.  ``refusal``: the reason why no part reads it while the node
    runs; empty for a key that can change.  ``locked``: the reason why this one node, by its settings, cannot change it.
    """

    name: str
    kind: ValueType
    default: Any
    setting: Setting | None = None
    readers: tuple[Reader, ...] = ()
    needs: Need | None = None
    refusal: str = ""
    is_fixed: bool = False
    locked: Callable[[Settings], str | None] = _never

    @property
    def is_secret(self) -> bool:
        return self.setting is not None and self.setting.secret

    def refusal_of(self, settings: Settings) -> str | None:
        """Reason why a node with these settings cannot change the key, as the rest of a sentence; None if it can."""
        if self.refusal:
            return self.refusal
        if self.needs is not None and not self.needs.is_met(settings):
            return f"has no effect on this node: it needs {self.needs.text}"
        if self.is_fixed:
            assert self.setting is not None
            return f"cannot change while the node runs; set {self.setting.environment[-1]} and start the node again"
        return self.locked(settings)


_ROWS: Final = {setting.attribute: setting for setting in rows(Settings)}

#: Begins the reason of keys that no part of this node reads.
NO_EFFECT: Final = "has no effect: "
#: Reason of keys that inject faults.
FAULT: Final = "makes a node misbehave on purpose, for tests of other implementations; this node does not"


def _live(
    name: str,
    attribute: str,
    *readers: Reader,
    needs: Need | None = None,
    always: bool = False,
    locked: Callable[[Settings], str | None] = _never,
) -> ConfigKey:
    """Key of a setting.  ``needs`` in place of the setting's; ``always``: of every node, whatever the setting needs."""
    setting = _ROWS[attribute]
    return ConfigKey(
        name=name,
        kind=setting.kind,
        default=setting.default,
        setting=setting,
        readers=readers,
        needs=None if always else needs or setting.needs,
        locked=locked,
    )


def _fixed(name: str, attribute: str) -> ConfigKey:
    """Key of a setting that is read at the start only."""
    setting = _ROWS[attribute]
    return ConfigKey(
        name=name, kind=setting.kind, default=setting.default, setting=setting, needs=setting.needs, is_fixed=True
    )


def _absent(name: str, attribute: str) -> ConfigKey:
    """Key of a setting whose part this node does not have."""
    setting = _ROWS[attribute]
    assert setting.needs is not None
    assert needs.is_missing(setting.needs)
    refusal = f"{NO_EFFECT}it needs {setting.needs.text}"
    return ConfigKey(name=name, kind=setting.kind, default=setting.default, setting=setting, refusal=refusal)


def _only(name: str, kind: ValueType, default: Any, *readers: Reader, needs: Need | None = None) -> ConfigKey:
    """Key without a setting."""
    return ConfigKey(name=name, kind=kind, default=default, readers=readers, needs=needs)


def _fault(name: str, kind: ValueType = _SWITCH, default: Any = False) -> ConfigKey:
    return ConfigKey(name=name, kind=kind, default=default, refusal=FAULT)


def _refused(name: str, kind: ValueType, reason: str, default: Any = None) -> ConfigKey:
    """Key without a setting that no node can change."""
    return ConfigKey(name=name, kind=kind, default=default, refusal=reason)


def _started_as_fisherman(settings: Settings) -> str | None:
    """A fisherman needs no keys and gives its transactions to others: what a sequencer needs is opened at the start."""
    if not settings.fisherman_mode:
        return None
    return "cannot be turned off while the node runs; start the node again without --fisherman-mode"


#: Keys of 4.x, in the order in which the network's nodes show them.
KEYS: Final[tuple[ConfigKey, ...]] = (
    # sequencer
    _live("sequencerPollingIntervalMS", "seq_polling_interval_ms", CHECKPOINTS),
    _live("maxTxsPerBlock", "max_txs_per_block", BLOCKS),
    _live("maxTxsPerCheckpoint", "max_txs_per_checkpoint", BLOCKS),
    _only("minValidTxsPerBlock", _COUNT, None, BLOCKS, needs=needs.BUILDING),
    _live("minTxsPerBlock", "min_txs_per_block", BLOCKS),
    _live("maxL2BlockGas", "max_l2_block_gas", BLOCKS),
    _live("maxDABlockGas", "max_da_block_gas", BLOCKS),
    _live("publishTxsWithProposals", "publish_txs_with_proposals", CHECKPOINTS),
    _live("perBlockAllocationMultiplier", "per_block_allocation_multiplier", BLOCKS),
    _only("redistributeCheckpointBudget", _SWITCH, None, BLOCKS, needs=needs.BUILDING),
    _live("coinbase", "coinbase", BLOCKS),
    _live("feeRecipient", "fee_recipient", BLOCKS),
    _absent("acvmWorkingDirectory", "acvm_working_directory"),
    _absent("acvmBinaryPath", "acvm_binary_path"),
    _live("txPublicSetupAllowListExtend", "tx_public_setup_allow_list_extend", ALLOWED_CALLS),
    _live("governanceProposerPayload", "governance_proposer_payload", VOTES),
    _live("l1PublishingTime", "l1_publishing_time", BLOCKS),
    _live("enforceTimeTable", "enforce_time_table", CHECKPOINTS),
    _fault("fakeProcessingDelayPerTxMs", _COUNT, None),
    _fault("fakeThrowAfterProcessingTxCount", _COUNT, None),
    _live("attestationPropagationTime", "attestation_propagation_time", CHECKPOINTS),
    _fault("skipCollectingAttestations"),
    _only("skipInvalidateBlockAsProposer", _SWITCH, False, CHECKPOINTS, needs=needs.SEQUENCER),
    _live(
        "secondsBeforeInvalidatingBlockAsCommitteeMember",
        "seconds_before_invalidating_block_as_committee_member",
        CHECKPOINTS,
    ),
    _live(
        "secondsBeforeInvalidatingBlockAsNonCommitteeMember",
        "seconds_before_invalidating_block_as_non_committee_member",
        CHECKPOINTS,
    ),
    _fault("broadcastInvalidBlockProposal"),
    _fault("injectFakeAttestation"),
    _fault("injectHighSValueAttestation"),
    _fault("injectUnrecoverableSignatureAttestation"),
    _live("fishermanMode", "fisherman_mode", CHECKPOINTS, ATTESTING, EXECUTION, locked=_started_as_fisherman),
    _fault("shuffleAttestationOrdering"),
    _live("blockDurationMs", "block_duration_ms", BLOCKS),
    _fixed("expectedBlockProposalsPerSlot", "expected_block_proposals_per_slot"),
    _live("buildCheckpointIfEmpty", "build_checkpoint_if_empty", CHECKPOINTS),
    _only("minBlocksForCheckpoint", Integer(1, 1 << 32), None, CHECKPOINTS, needs=needs.SEQUENCER),
    _fault("skipPushProposedBlocksToArchiver"),
    _live("skipPublishingCheckpointsPercent", "skip_checkpoint_publish_percent", CHECKPOINTS),
    # prover
    _absent("nodeUrl", "node_url"),
    _live("realProofs", "prover_real_proofs", PROOFS, always=True),
    _live("proverId", "prover_id", PROVER),
    _absent("proverTestDelayType", "prover_test_delay_type"),
    _live("proverTestDelayMs", "prover_test_delay_ms", PROVER),
    _absent("proverTestDelayFactor", "prover_test_delay_factor"),
    _absent("proverAgentCount", "prover_agent_count"),
    _absent("proofStore", "prover_proof_store"),
    _absent("failedProofStore", "prover_failed_proof_store"),
    _absent("cancelJobsOnStop", "prover_cancel_jobs_on_stop"),
    _absent("enqueueConcurrency", "prover_enqueue_concurrency"),
    # slasher
    _live("slashOverridePayload", "slash_override_payload", VOTES),
    _live("slashMinPenaltyPercentage", "slash_min_penalty_percentage", VOTES),
    _live("slashMaxPenaltyPercentage", "slash_max_penalty_percentage", VOTES),
    _live("slashValidatorsAlways", "slash_validators_always", VOTES),
    _live("slashValidatorsNever", "slash_validators_never", VOTES),
    _live("slashPrunePenalty", "slash_prune_penalty", OFFENSES, VOTES),
    _live("slashDataWithholdingPenalty", "slash_data_withholding_penalty", OFFENSES, VOTES),
    _live("slashInactivityTargetPercentage", "slash_inactivity_target_percentage", OFFENSES),
    _live("slashInactivityConsecutiveEpochThreshold", "slash_inactivity_consecutive_epoch_threshold", OFFENSES),
    _live("slashInactivityPenalty", "slash_inactivity_penalty", OFFENSES, VOTES),
    _live("slashProposeInvalidAttestationsPenalty", "slash_propose_invalid_attestations_penalty", OFFENSES, VOTES),
    _live("slashDuplicateProposalPenalty", "slash_duplicate_proposal_penalty", OFFENSES, VOTES),
    _live("slashDuplicateAttestationPenalty", "slash_duplicate_attestation_penalty", OFFENSES, VOTES),
    _live("slashAttestDescendantOfInvalidPenalty", "slash_attest_descendant_of_invalid_penalty", OFFENSES, VOTES),
    _live("slashUnknownPenalty", "slash_unknown_penalty", VOTES),
    _live("slashOffenseExpirationRounds", "slash_offense_expiration_rounds", OFFENSES, VOTES),
    _live("slashMaxPayloadSize", "slash_max_payload_size", VOTES),
    _live("slashGracePeriodL2Slots", "slash_grace_period_l2_slots", OFFENSES),
    _live("slashBroadcastedInvalidBlockPenalty", "slash_invalid_block_penalty", OFFENSES, VOTES, EXECUTION),
    _live("slashExecuteRoundsLookBack", "slash_execute_rounds_look_back", VOTES),
    _live("slashSelfAllowed", "slash_self_allowed", VOTES),
    # high availability
    _fixed("haSigningEnabled", "validator_ha_signing_enabled"),
    _fixed("nodeId", "validator_ha_node_id"),
    _fixed("pollingIntervalMs", "validator_ha_polling_interval_ms"),
    _fixed("signingTimeoutMs", "validator_ha_signing_timeout_ms"),
    _fixed("maxStuckDutiesAgeMs", "validator_ha_max_stuck_duties_age_ms"),
    _fixed("cleanupOldDutiesAfterHours", "validator_ha_old_duties_max_age_h"),
    _fixed("databaseUrl", "validator_ha_database_url"),
    _fixed("poolMaxCount", "validator_ha_pool_max"),
    _fixed("poolMinCount", "validator_ha_pool_min"),
    _fixed("poolIdleTimeoutMs", "validator_ha_pool_idle_timeout_ms"),
    _fixed("poolConnectionTimeoutMs", "validator_ha_pool_connection_timeout_ms"),
    # validator
    _fixed("validatorAddresses", "validator_addresses"),
    _fixed("disableValidator", "validator_disabled"),
    _only("disabledValidators", ArrayOf(HexText(20)), (), SIGNING, needs=needs.SEQUENCER),
    _live("attestationPollingIntervalMs", "validator_attestations_polling_interval_ms", ATTESTING),
    _live("validatorReexecute", "validator_reexecute", EXECUTION),
    _only("alwaysReexecuteBlockProposals", _SWITCH, True, EXECUTION, needs=needs.PROPOSALS),
    _only("skipCheckpointProposalValidation", _SWITCH, False, ATTESTING, needs=needs.ATTESTING),
    _fault("attestToEquivocatedProposals"),
    _live("validateMaxL2BlockGas", "validate_max_l2_block_gas", BLOCKS),
    _live("validateMaxDABlockGas", "validate_max_da_block_gas", BLOCKS),
    _live("validateMaxTxsPerBlock", "validate_max_txs_per_block", BLOCKS),
    _live("validateMaxTxsPerCheckpoint", "validate_max_txs_per_checkpoint", BLOCKS),
    # node
    _live("disableTransactions", "transactions_disabled", POOL),
    _live("archiverPollingIntervalMS", "archiver_polling_interval_ms", POLLING),
    _fixed("archiverBatchSize", "archiver_batch_size"),
    _only("skipValidateCheckpointAttestations", _SWITCH, False, DERIVING, needs=needs.DERIVING),
    _live("maxPendingTxCount", "p2p_max_pending_tx_count", POOL),
)

_UNKNOWN_OFFENSE: Final = NO_EFFECT + "this node does not detect this offense"
_OWN_TIMES: Final = NO_EFFECT + "this node computes the times of a slot itself"
_NO_MAP: Final = NO_EFFECT + "the databases of this node have no map, and grow as needed"
_DECIMAL: Final = Number(0, 1 << 32)

#: Keys that only 5.x has.
_OF_FIVE: Final[tuple[ConfigKey, ...]] = (
    # sequencer
    _live("maxBlocksPerCheckpoint", "max_blocks_per_checkpoint", BLOCKS),
    _refused(
        "perBlockDAAllocationMultiplier",
        _DECIMAL,
        NO_EFFECT + "perBlockAllocationMultiplier is for L2 gas and DA gas on this node",
    ),
    _refused("minBlockDuration", _DECIMAL, _OWN_TIMES),
    _refused("checkpointProposalPrepareTime", _DECIMAL, _OWN_TIMES),
    _refused("checkpointProposalSyncGraceSeconds", _DECIMAL, _OWN_TIMES),
    _fault("skipWaitForValidParentCheckpointOnL1"),
    _fault("invalidBlockProposalIndexWithinCheckpoint", _COUNT, None),
    _fault("broadcastInvalidCheckpointProposalOnly"),
    _fault("injectYParityAttestation"),
    _fault("skipBroadcastProposals"),
    _fault("skipBroadcastCheckpointProposal"),
    _fault("pauseProposingForSlots", ArrayOf(_COUNT), None),
    # slasher
    _refused(
        "slashDataWithholdingToleranceSlots", _COUNT, NO_EFFECT + "this node does not count slots of withheld data"
    ),
    _refused("slashBroadcastedInvalidCheckpointProposalPenalty", Amount(), _UNKNOWN_OFFENSE, 0),
    _refused("slashAttestInvalidCheckpointProposalPenalty", Amount(), _UNKNOWN_OFFENSE, 0),
    # signing protection
    _refused("signerCallTimeoutMs", _COUNT, NO_EFFECT + "this node has one timeout of remote signers, a setting"),
    _refused(
        "dataDirectory",
        _ROWS["data_directory"].kind,
        "cannot change while the node runs; set DATA_DIRECTORY and start the node again",
    ),
    _refused("dataStoreMapSizeKb", _COUNT, _NO_MAP, 0),
    _refused("signingProtectionMapSizeKb", _COUNT, _NO_MAP),
    _refused(
        "allowEphemeralSigningProtection", _SWITCH, NO_EFFECT + "this node signs with a data directory only", False
    ),
    # validator
    _refused("l1ChainId", _COUNT, "cannot change: it is the chain that the rollup is on"),
    _fault("skipProposalSlotValidation"),
    _refused("maxGossipClockDisparityMs", _COUNT, _OWN_TIMES),
    # node
    _fault("skipIncomingProposals"),
)

KEYS_BY_NAME: Final = {key.name: key for key in (*KEYS, *_OF_FIVE)}


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys of a release, by the names that its clients use.

    ``always_shown``: names of those without a default that getConfig shows even so.
    """

    release: str
    keys: Mapping[str, ConfigKey]
    always_shown: frozenset[str]

    def name_of(self, key: ConfigKey) -> str:
        return next((name for name, candidate in self.keys.items() if candidate is key), key.name)


#: Keys of 4.x that have another name in 5.x; None: it does not have them.
_NAMES_IN_FIVE: Final[Mapping[str, str | None]] = {
    "enforceTimeTable": None,
    "signingTimeoutMs": "peerSigningTimeoutMs",
    "slashAttestDescendantOfInvalidPenalty": "slashProposeDescendantOfCheckpointWithInvalidAttestationsPenalty",
    "slashMaxPenaltyPercentage": None,
    "slashMinPenaltyPercentage": None,
    "slashPrunePenalty": None,
    "validatorReexecute": None,
}


def _keys_of_five() -> Iterable[tuple[str, ConfigKey]]:
    for key in KEYS_BY_NAME.values():
        name = _NAMES_IN_FIVE.get(key.name, key.name)
        if name is not None:
            yield name, key


FOUR: Final = KeySet("4.x", {key.name: key for key in KEYS}, frozenset({"nodeId"}))
FIVE: Final = KeySet("5.x", dict(_keys_of_five()), frozenset({"nodeId", "l1ChainId", "blockDurationMs"}))


def keys_of(reader: Reader) -> Iterable[ConfigKey]:
    """The keys that a part reads while it runs."""
    return (key for key in KEYS_BY_NAME.values() if reader in key.readers)
