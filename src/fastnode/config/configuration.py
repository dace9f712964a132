"""Values of nodeAdmin_getConfig and nodeAdmin_setConfig: the keys of the network's nodes, over the settings.

A key takes its type, limits and first value from the setting behind it; a few have none and are known here
only.  What a new value does depends on the key:

    applied    some part of the running node takes it over at once; the node says which by ``apply``
    kept       it is for a part that this node does not run; getConfig shows it, nothing else changes
    fixed      it cannot change while the node runs: another value is refused, with the name to set instead

null takes a value away: the key is again what it is where nothing sets it.  Nothing of it survives the process: a
start reads the settings.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from fastnode.config.settings import Setting, Settings, rows
from fastnode.errors import ValueRefused
from fastnode.log import log_facts
from fastnode.records import dataclass
from fastnode.values.arrays import ArrayOf
from fastnode.values.choices import BOOLEAN
from fastnode.values.numbers import Integer
from fastnode.values.refusal import Reject, describe
from fastnode.values.schemas import Schema, object_of
from fastnode.values.texts import HexText
from fastnode.values.value_type import NamedType, ValueType, read_member

__all__ = ["KEYS", "ConfigKey", "ConfigPatch", "NodeConfiguration", "configuration_schema"]

logger = logging.getLogger(__name__)

_COUNT: Final = Integer(0, 1 << 32)
_SWITCH: Final = BOOLEAN


# ---- the keys ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key: ``setting`` is None if only setConfig has it."""

    name: str
    kind: ValueType
    default: Any
    setting: Setting | None = None
    is_fixed: bool = False

    @property
    def is_secret(self) -> bool:
        return self.setting is not None and self.setting.secret


_ROWS: Final = {setting.attribute: setting for setting in rows(Settings)}


def _of(name: str, attribute: str) -> ConfigKey:
    setting = _ROWS[attribute]
    return ConfigKey(name, setting.kind, setting.default, setting)


def _fixed(name: str, attribute: str) -> ConfigKey:
    setting = _ROWS[attribute]
    return ConfigKey(name, setting.kind, setting.default, setting, is_fixed=True)


def _only(name: str, kind: ValueType, default: Any = None) -> ConfigKey:
    return ConfigKey(name, kind, default)


#: In the order in which the network's nodes show them.
KEYS: Final[tuple[ConfigKey, ...]] = (
    # sequencer
    _of("sequencerPollingIntervalMS", "seq_polling_interval_ms"),
    _of("maxTxsPerBlock", "max_txs_per_block"),
    _of("maxTxsPerCheckpoint", "max_txs_per_checkpoint"),
    _only("minValidTxsPerBlock", _COUNT),
    _of("minTxsPerBlock", "min_txs_per_block"),
    _of("maxL2BlockGas", "max_l2_block_gas"),
    _of("maxDABlockGas", "max_da_block_gas"),
    _of("publishTxsWithProposals", "publish_txs_with_proposals"),
    _of("perBlockAllocationMultiplier", "per_block_allocation_multiplier"),
    _only("redistributeCheckpointBudget", _SWITCH),
    _of("coinbase", "coinbase"),
    _of("feeRecipient", "fee_recipient"),
    _of("acvmWorkingDirectory", "acvm_working_directory"),
    _of("acvmBinaryPath", "acvm_binary_path"),
    _of("txPublicSetupAllowListExtend", "tx_public_setup_allow_list_extend"),
    _of("governanceProposerPayload", "governance_proposer_payload"),
    _of("l1PublishingTime", "l1_publishing_time"),
    _of("enforceTimeTable", "enforce_time_table"),
    _only("fakeProcessingDelayPerTxMs", _COUNT),
    _only("fakeThrowAfterProcessingTxCount", _COUNT),
    _of("attestationPropagationTime", "attestation_propagation_time"),
    _only("skipCollectingAttestations", _SWITCH, False),
    _only("skipInvalidateBlockAsProposer", _SWITCH, False),
    _of("secondsBeforeInvalidatingBlockAsCommitteeMember", "seconds_before_invalidating_block_as_committee_member"),
    _of(
        "secondsBeforeInvalidatingBlockAsNonCommitteeMember",
        "seconds_before_invalidating_block_as_non_committee_member",
    ),
    _only("broadcastInvalidBlockProposal", _SWITCH, False),
    _only("injectFakeAttestation", _SWITCH, False),
    _only("injectHighSValueAttestation", _SWITCH, False),
    _only("injectUnrecoverableSignatureAttestation", _SWITCH, False),
    _of("fishermanMode", "fisherman_mode"),
    _only("shuffleAttestationOrdering", _SWITCH, False),
    _of("blockDurationMs", "block_duration_ms"),
    _of("expectedBlockProposalsPerSlot", "expected_block_proposals_per_slot"),
    _of("buildCheckpointIfEmpty", "build_checkpoint_if_empty"),
    _only("minBlocksForCheckpoint", Integer(1, 1 << 32)),
    _only("skipPushProposedBlocksToArchiver", _SWITCH, False),
    _of("skipPublishingCheckpointsPercent", "skip_checkpoint_publish_percent"),
    # prover
    _of("nodeUrl", "node_url"),
    _of("realProofs", "prover_real_proofs"),
    _of("proverId", "prover_id"),
    _of("proverTestDelayType", "prover_test_delay_type"),
    _of("proverTestDelayMs", "prover_test_delay_ms"),
    _of("proverTestDelayFactor", "prover_test_delay_factor"),
    _of("proverAgentCount", "prover_agent_count"),
    _of("proofStore", "prover_proof_store"),
    _of("failedProofStore", "prover_failed_proof_store"),
    _of("cancelJobsOnStop", "prover_cancel_jobs_on_stop"),
    _of("enqueueConcurrency", "prover_enqueue_concurrency"),
    # slasher
    _of("slashOverridePayload", "slash_override_payload"),
    _of("slashMinPenaltyPercentage", "slash_min_penalty_percentage"),
    _of("slashMaxPenaltyPercentage", "slash_max_penalty_percentage"),
    _of("slashValidatorsAlways", "slash_validators_always"),
    _of("slashValidatorsNever", "slash_validators_never"),
    _of("slashPrunePenalty", "slash_prune_penalty"),
    _of("slashDataWithholdingPenalty", "slash_data_withholding_penalty"),
    _of("slashInactivityTargetPercentage", "slash_inactivity_target_percentage"),
    _of("slashInactivityConsecutiveEpochThreshold", "slash_inactivity_consecutive_epoch_threshold"),
    _of("slashInactivityPenalty", "slash_inactivity_penalty"),
    _of("slashProposeInvalidAttestationsPenalty", "slash_propose_invalid_attestations_penalty"),
    _of("slashDuplicateProposalPenalty", "slash_duplicate_proposal_penalty"),
    _of("slashDuplicateAttestationPenalty", "slash_duplicate_attestation_penalty"),
    _of("slashAttestDescendantOfInvalidPenalty", "slash_attest_descendant_of_invalid_penalty"),
    _of("slashUnknownPenalty", "slash_unknown_penalty"),
    _of("slashOffenseExpirationRounds", "slash_offense_expiration_rounds"),
    _of("slashMaxPayloadSize", "slash_max_payload_size"),
    _of("slashGracePeriodL2Slots", "slash_grace_period_l2_slots"),
    _of("slashBroadcastedInvalidBlockPenalty", "slash_invalid_block_penalty"),
    _of("slashExecuteRoundsLookBack", "slash_execute_rounds_look_back"),
    _of("slashSelfAllowed", "slash_self_allowed"),
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
    _only("disabledValidators", ArrayOf(HexText(20)), ()),
    _of("attestationPollingIntervalMs", "validator_attestations_polling_interval_ms"),
    _of("validatorReexecute", "validator_reexecute"),
    _only("alwaysReexecuteBlockProposals", _SWITCH, True),
    _only("skipCheckpointProposalValidation", _SWITCH, False),
    _only("attestToEquivocatedProposals", _SWITCH, False),
    _of("validateMaxL2BlockGas", "validate_max_l2_block_gas"),
    _of("validateMaxDABlockGas", "validate_max_da_block_gas"),
    _of("validateMaxTxsPerBlock", "validate_max_txs_per_block"),
    _of("validateMaxTxsPerCheckpoint", "validate_max_txs_per_checkpoint"),
    # node
    _of("disableTransactions", "transactions_disabled"),
    _of("archiverPollingIntervalMS", "archiver_polling_interval_ms"),
    _of("archiverBatchSize", "archiver_batch_size"),
    _only("skipValidateCheckpointAttestations", _SWITCH, False),
    _of("maxPendingTxCount", "p2p_max_pending_tx_count"),
)

_BY_NAME: Final = {key.name: key for key in KEYS}


# ---- the configuration of a node ----------------------------------------------------------------------

#: ``apply(configuration, names)``: take over the new values of these keys.  Must not fail.
Apply = Callable[["NodeConfiguration", frozenset[str]], None]


class NodeConfiguration:
    """The values of one running node.  Usable from any thread.

    ``initial`` replaces values of settings that the chain decides, ``unset`` is what a key falls back to that is
    set to null.  ``limits``: the most that the network allows for a key; a value above it is capped.
    """

    def __init__(
        self,
        settings: Settings,
        initial: Mapping[str, Any] | None = None,
        *,
        unset: Mapping[str, Any] | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> None:
        self._unset = {key.name: key.default for key in KEYS} | dict(unset or {})
        self._limits = dict(limits or {})
        values = {
            key.name: key.default if key.setting is None else getattr(settings, key.setting.attribute) for key in KEYS
        } | dict(initial or {})
        self._values: dict[str, Any] = {name: self._capped(name, value) for name, value in values.items()}
        self._appliers: list[tuple[frozenset[str], Apply]] = []
        self._lock = threading.Lock()

    def on_change(self, names: Iterable[str], apply: Apply) -> None:
        """Call ``apply`` after each change of any of the keys."""
        self._appliers.append((frozenset(names), apply))

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def replace(self, name: str, value: Any) -> None:
        """The node itself has changed the value, a fixed one perhaps."""
        with self._lock:
            self._values = self._values | {name: value}

    def describe(self) -> dict[str, Any]:
        """Values that getConfig answers: without secrets and what is not set."""
        values = self._values
        shown = {
            key.name: key.kind.to_json(values[key.name])
            for key in KEYS
            if values[key.name] is not None and not key.is_secret
        }
        if _NODE_ID in shown:
            return shown
        # The network's nodes have an empty name here instead of none.
        order = {key.name: index for index, key in enumerate(KEYS)}
        return dict(sorted((shown | {_NODE_ID: ""}).items(), key=lambda item: order[item[0]]))

    def change(self, new: Mapping[str, Any]) -> None:
        """Merge values that :class:`ConfigPatch` has read; ValueRefused, and nothing changed, for a fixed one."""
        with self._lock:
            wanted = {name: self._unset[name] if value is UNSET else value for name, value in new.items()}
            capped = {name: self._capped(name, value) for name, value in wanted.items()}
            changed = {name: value for name, value in capped.items() if value != self._values[name]}
            for name in changed:
                self._require_changeable(_BY_NAME[name])
            self._require_order(self._values | changed)
            self._values = self._values | changed
            self._apply(frozenset(changed))

    def _capped(self, name: str, value: Any) -> Any:
        limit = self._limits.get(name)
        if limit is None or value is None or value <= limit:
            return value
        logger.warning(
            "a value is capped at the limit of a checkpoint", extra=log_facts(key=name, value=value, limit=limit)
        )
        return limit

    def _require_changeable(self, key: ConfigKey) -> None:
        if key.is_fixed:
            assert key.setting is not None
            raise ValueRefused(
                f"Invalid params: config.{key.name} (parameter 1) cannot change while the node runs; "
                f"set {key.setting.environment[-1]} and start the node again"
            )

    def _require_order(self, values: Mapping[str, Any]) -> None:
        if values["slashMinPenaltyPercentage"] > values["slashMaxPenaltyPercentage"]:
            raise ValueRefused(
                "Invalid params: config.slashMinPenaltyPercentage (parameter 1) must not be above "
                "slashMaxPenaltyPercentage"
            )

    def _apply(self, changed: frozenset[str]) -> None:
        kept = set(changed)
        for names, apply in self._appliers:
            if names & changed:
                apply(self, names & changed)
                kept -= names
        if changed - kept:
            logger.info("configuration changed", extra=log_facts(keys=" ".join(sorted(changed - kept))))
        if kept:
            logger.warning(
                "configuration kept for parts that do not run here", extra=log_facts(keys=" ".join(sorted(kept)))
            )


def _read(key: ConfigKey, item: object) -> Any:
    if item == "" and key.kind.is_unset_by_empty_text:
        return None
    try:
        return read_member(key.kind, item, key.name)
    except Reject:
        if key.is_secret:
            raise Reject(f"must be {key.kind.expects}, got (secret)", f".{key.name}") from None
        raise


#: In place of a value: the key goes back to what it is without one.
UNSET: Final = object()


class ConfigPatch(NamedType):
    """The parameter of setConfig: any subset of the keys.  Gives their values, read and checked; UNSET for null."""

    __slots__ = ()

    component = "PartialAztecNodeAdminConfig"
    name = "Partial<AztecNodeAdminConfig>"
    expects = "an object with keys of the configuration"

    def from_json(self, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.refuse(value)
        patch: dict[str, Any] = {}
        for name, item in value.items():
            key = _BY_NAME.get(name)
            if key is None:
                raise Reject(f"has an unknown key {describe(name)}")
            patch[name] = UNSET if item is None else _read(key, item)
        return patch

    def definition(self) -> Schema:
        return object_of({key.name: _described(key, {"anyOf": _taken(key)}) for key in KEYS}, closed=True)

    def parts(self) -> Iterable[ValueType]:
        return (key.kind for key in KEYS)


#: Shown as an empty text where there is none.
_NODE_ID: Final = "nodeId"


def configuration_schema() -> Schema:
    """AztecNodeAdminConfig, what getConfig answers: without secrets, and without what is not set."""
    shown = [key for key in KEYS if not key.is_secret]
    return {
        "type": "object",
        "description": "The configuration, by the names of other nodes, without what is not set and what is secret.",
        "properties": {key.name: _described(key, key.kind.schema_shown()) for key in shown},
        "required": [key.name for key in shown if key.default is not None or key.name == _NODE_ID],
    }


def _taken(key: ConfigKey) -> list[Schema]:
    """null takes a value away, and so does an empty text where no text is empty."""
    unset: list[Schema] = [{"const": ""}] if key.kind.is_unset_by_empty_text else []
    return [key.kind.schema(), *unset, {"type": "null"}]


def _described(key: ConfigKey, schema: Schema) -> Schema:
    sentences = [] if key.setting is None else [key.setting.help]
    if key.is_fixed:
        sentences.append("Cannot change while the node runs.")
    return {**schema, "description": " ".join(sentences)} if sentences else schema
