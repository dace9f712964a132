"""The settings of validators and provers: keys, limits, slashing, statistics, high availability."""

from __future__ import annotations

from pathlib import Path

from fastnode.config import needs
from fastnode.config.table import setting
from fastnode.protocol.constants import JSON_INTEGER_MAX
from fastnode.records import dataclass
from fastnode.values.arrays import ArrayOf
from fastnode.values.choices import Boolean, Choice
from fastnode.values.numbers import Amount, Integer, Number
from fastnode.values.texts import FilePath, HexText, Text

__all__ = ["ValidatorSettings"]

VALIDATOR = "Validator"
PROVER = "Prover"
SLASHING = "Slashing and statistics"
AVAILABILITY = "High availability"

_COUNT_MAX = 1 << 32
_MILLISECONDS_MAX = 1 << 40
_ADDRESS_BYTES = 20

#: 10 units of the staking asset.
_PENALTY = 10 * 10**18

_PROVER_OF_ITS_OWN = needs.missing("a prover of its own, which this node does not have: --prover-command names one")


@dataclass(frozen=True, kw_only=True)
class ValidatorSettings:
    key_store_directory: Path | None = setting(
        None,
        FilePath(metavar="PATH"),
        VALIDATOR,
        "Keystore: a JSON file, or a directory of them.",
        needs=needs.KEYS,
        environment=("KEY_STORE_DIRECTORY",),
    )
    validator_disabled: bool = setting(
        False,
        Boolean(),
        VALIDATOR,
        "Use no validator keys.",
        needs=needs.SIGNING,
        environment=("VALIDATOR_DISABLED",),
    )
    validator_addresses: tuple[str, ...] = setting(
        (),
        ArrayOf(HexText(_ADDRESS_BYTES)),
        VALIDATOR,
        "Addresses of the node's own validators.",
        needs=needs.SIGNING,
        environment=("VALIDATOR_ADDRESSES",),
    )
    validator_attestations_polling_interval_ms: int = setting(
        200,
        Integer(1, _MILLISECONDS_MAX),
        VALIDATOR,
        "How often a proposer that waits for attestations looks for new ones.",
        needs=needs.ATTESTING,
        environment=("VALIDATOR_ATTESTATIONS_POLLING_INTERVAL_MS",),
    )
    validator_reexecute: bool = setting(
        True,
        Boolean(),
        VALIDATOR,
        "Execute proposed blocks of others, which attesting takes. Off, they are executed while "
        "alwaysReexecuteBlockProposals (nodeAdmin_setConfig) is on, as at the start, and with "
        "--blob-file-store-upload-url or --fisherman-mode.",
        needs=needs.ATTESTING,
        environment=("VALIDATOR_REEXECUTE",),
    )
    validate_max_l2_block_gas: int | None = setting(
        None,
        Integer(0, JSON_INTEGER_MAX),
        VALIDATOR,
        "Most L2 gas in a block of others that is accepted.",
        needs=needs.BUILDING,
        environment=("VALIDATOR_MAX_L2_BLOCK_GAS",),
        flags=("--validateMaxL2BlockGas",),
    )
    validate_max_da_block_gas: int | None = setting(
        None,
        Integer(0, JSON_INTEGER_MAX),
        VALIDATOR,
        "Most data gas in a block of others that is accepted.",
        needs=needs.BUILDING,
        environment=("VALIDATOR_MAX_DA_BLOCK_GAS",),
        flags=("--validateMaxDABlockGas",),
    )
    validate_max_txs_per_block: int | None = setting(
        None,
        Integer(0, _COUNT_MAX),
        VALIDATOR,
        "Most transactions in a block of others that is accepted.",
        needs=needs.BUILDING,
        environment=("VALIDATOR_MAX_TX_PER_BLOCK",),
        flags=("--validateMaxTxsPerBlock",),
    )
    validate_max_txs_per_checkpoint: int | None = setting(
        None,
        Integer(0, _COUNT_MAX),
        VALIDATOR,
        "Most transactions in a checkpoint of others that is accepted.",
        needs=needs.BUILDING,
        environment=("VALIDATOR_MAX_TX_PER_CHECKPOINT",),
        flags=("--validateMaxTxsPerCheckpoint",),
    )

    # ---- prover ---------------------------------------------------------------------------

    prover_node: bool = setting(
        False,
        Boolean(),
        PROVER,
        "Prove complete epochs on L1, where L1 checks proofs with --prover-command; docs/sequencer.md.",
        whole_release=True,
    )
    prover_command: str | None = setting(
        None,
        Text(metavar="COMMAND"),
        PROVER,
        "Program that makes the proof of an epoch: COMMAND INPUTS PROOF, two files.",
        needs=needs.PROVING,
    )
    prover_partial_epochs: bool = setting(
        False,
        Boolean(),
        PROVER,
        "Prove an epoch as far as it goes instead of waiting for its end.",
        needs=needs.PROVING,
    )
    node_url: str | None = setting(
        None,
        Text(metavar="URL"),
        PROVER,
        "Node that the prover works for, if it is another one.",
        needs=_PROVER_OF_ITS_OWN,
        environment=("AZTEC_NODE_URL",),
        secret=True,
    )
    prover_real_proofs: bool = setting(
        True,
        Boolean(),
        PROVER,
        "A chain that is learned from L1 has real proofs; only read while nothing is stored.",
        needs=needs.LEARNING_FROM_L1,
        environment=("PROVER_REAL_PROOFS",),
    )
    prover_id: str | None = setting(
        None,
        HexText(_ADDRESS_BYTES),
        PROVER,
        "L1 address that gets the prover's reward.",
        needs=needs.PROVING,
        environment=("PROVER_ID",),
    )
    prover_test_delay_type: str = setting(
        "fixed",
        Choice(("fixed", "realistic")),
        PROVER,
        "How long a proof that is not real takes.",
        needs=_PROVER_OF_ITS_OWN,
        environment=("PROVER_TEST_DELAY_TYPE",),
    )
    prover_test_delay_ms: int = setting(
        0,
        Integer(0, _MILLISECONDS_MAX),
        PROVER,
        "The fixed time of such a proof.",
        needs=needs.PROVING,
        environment=("PROVER_TEST_DELAY_MS",),
    )
    prover_test_delay_factor: float = setting(
        1,
        Number(0, 1_000_000),
        PROVER,
        "What the realistic time of such a proof is multiplied with.",
        needs=_PROVER_OF_ITS_OWN,
        environment=("PROVER_TEST_DELAY_FACTOR",),
    )
    prover_agent_count: int = setting(
        1,
        Integer(0, _COUNT_MAX),
        PROVER,
        "How many proofs are made at a time.",
        needs=_PROVER_OF_ITS_OWN,
        environment=("PROVER_AGENT_COUNT",),
    )
    prover_proof_store: str | None = setting(
        None,
        Text(metavar="URL"),
        PROVER,
        "Where proofs are kept.",
        needs=_PROVER_OF_ITS_OWN,
        environment=("PROVER_PROOF_STORE",),
        secret=True,
    )
    prover_failed_proof_store: str | None = setting(
        None,
        Text(metavar="URL"),
        PROVER,
        "Where the inputs of failed proofs are kept.",
        needs=_PROVER_OF_ITS_OWN,
        environment=("PROVER_FAILED_PROOF_STORE",),
        secret=True,
    )
    prover_cancel_jobs_on_stop: bool = setting(
        False,
        Boolean(),
        PROVER,
        "Drop unfinished proofs at a stop.",
        needs=_PROVER_OF_ITS_OWN,
        environment=("PROVER_CANCEL_JOBS_ON_STOP",),
    )
    prover_enqueue_concurrency: int = setting(
        50,
        Integer(1, _COUNT_MAX),
        PROVER,
        "How many proofs are put in the queue at a time.",
        needs=_PROVER_OF_ITS_OWN,
        environment=("PROVER_ENQUEUE_CONCURRENCY",),
    )

    # ---- slashing and statistics ----------------------------------------------------------

    sentinel_enabled: bool = setting(
        False,
        Boolean(),
        SLASHING,
        "Keep statistics of validators.",
        environment=("SENTINEL_ENABLED",),
    )
    sentinel_history_length_in_epochs: int = setting(
        24,
        Integer(1, 1_000_000),
        SLASHING,
        "How many epochs back the statistics go.",
        needs=needs.SENTINEL,
        environment=("SENTINEL_HISTORY_LENGTH_IN_EPOCHS",),
    )
    sentinel_historic_proven_performance_length_in_epochs: int = setting(
        2000,
        Integer(1, 1_000_000),
        SLASHING,
        "How many proven epochs are counted for the performance of all time.",
        needs=needs.SENTINEL,
        environment=("SENTINEL_HISTORIC_PROVEN_PERFORMANCE_LENGTH_IN_EPOCHS",),
    )
    slashing_round_size_in_epochs: int = setting(
        4,
        Integer(1, 1_000_000),
        SLASHING,
        "Epochs of a round of votes on offenses, as the rollup's contracts have it.",
        needs=needs.DETECTION,
    )
    slashing_offset_in_rounds: int = setting(
        2,
        Integer(0, 1_000_000),
        SLASHING,
        "How many rounds after an offense it is voted on, as the rollup's contracts have it.",
        needs=needs.DETECTION,
    )
    slash_factory_address: str | None = setting(
        None,
        HexText(_ADDRESS_BYTES),
        SLASHING,
        "Contract that makes payloads of slashing; without it none is made or judged.",
        needs=needs.SEQUENCER,
        environment=("SLASH_FACTORY_CONTRACT_ADDRESS",),
    )
    slash_override_payload: str | None = setting(
        None,
        HexText(_ADDRESS_BYTES),
        SLASHING,
        "Payload of slashing to vote for, independent of the offenses, until it is elected.",
        needs=needs.SEQUENCER,
        environment=("SLASH_OVERRIDE_PAYLOAD",),
    )
    slash_min_penalty_percentage: float = setting(
        0.5,
        Number(0, 1_000_000),
        SLASHING,
        "Smallest penalty of others' payloads that is voted for, as a multiple of the own one.",
        needs=needs.SEQUENCER,
        environment=("SLASH_MIN_PENALTY_PERCENTAGE",),
    )
    slash_max_penalty_percentage: float = setting(
        2,
        Number(0, 1_000_000),
        SLASHING,
        "Largest penalty of others' payloads that is voted for, as a multiple of the own one.",
        needs=needs.SEQUENCER,
        environment=("SLASH_MAX_PENALTY_PERCENTAGE",),
    )
    slash_validators_always: tuple[str, ...] = setting(
        (),
        ArrayOf(HexText(_ADDRESS_BYTES)),
        SLASHING,
        "Validators to vote against in every case.",
        needs=needs.SEQUENCER,
        environment=("SLASH_VALIDATORS_ALWAYS",),
    )
    slash_validators_never: tuple[str, ...] = setting(
        (),
        ArrayOf(HexText(_ADDRESS_BYTES)),
        SLASHING,
        "Validators never to vote against, beside the node's own.",
        needs=needs.SEQUENCER,
        environment=("SLASH_VALIDATORS_NEVER",),
    )
    slash_prune_penalty: int = setting(
        _PENALTY,
        Amount(),
        SLASHING,
        "Penalty for an epoch that was pruned although its data was there.",
        needs=needs.PEER_OFFENSES,
        environment=("SLASH_PRUNE_PENALTY",),
    )
    slash_data_withholding_penalty: int = setting(
        _PENALTY,
        Amount(),
        SLASHING,
        "Penalty for an epoch that was pruned because its data was not there.",
        needs=needs.PEER_OFFENSES,
        environment=("SLASH_DATA_WITHHOLDING_PENALTY",),
    )
    slash_inactivity_target_percentage: float = setting(
        0.9,
        Number(0, 1, above_minimum=True),
        SLASHING,
        "Share of missed duties from which a validator counts as inactive.",
        needs=needs.SENTINEL,
        environment=("SLASH_INACTIVITY_TARGET_PERCENTAGE",),
    )
    slash_inactivity_consecutive_epoch_threshold: int = setting(
        1,
        Integer(1, 1_000_000),
        SLASHING,
        "For how many epochs in a row it must be inactive.",
        needs=needs.SENTINEL,
        environment=("SLASH_INACTIVITY_CONSECUTIVE_EPOCH_THRESHOLD",),
    )
    slash_inactivity_penalty: int = setting(
        _PENALTY,
        Amount(),
        SLASHING,
        "Penalty for inactivity.",
        needs=needs.INACTIVITY,
        environment=("SLASH_INACTIVITY_PENALTY",),
    )
    slash_propose_invalid_attestations_penalty: int = setting(
        _PENALTY,
        Amount(),
        SLASHING,
        "Penalty for proposing a checkpoint with invalid attestations.",
        needs=needs.DETECTION,
        environment=("SLASH_PROPOSE_INVALID_ATTESTATIONS_PENALTY",),
    )
    slash_duplicate_proposal_penalty: int = setting(
        0,
        Amount(),
        SLASHING,
        "Penalty for two proposals for one slot.",
        needs=needs.DETECTION,
        environment=("SLASH_DUPLICATE_PROPOSAL_PENALTY",),
    )
    slash_duplicate_attestation_penalty: int = setting(
        0,
        Amount(),
        SLASHING,
        "Penalty for attestations to two proposals of one slot.",
        needs=needs.DETECTION,
        environment=("SLASH_DUPLICATE_ATTESTATION_PENALTY",),
    )
    slash_attest_descendant_of_invalid_penalty: int = setting(
        _PENALTY,
        Amount(),
        SLASHING,
        "Penalty for attesting to what follows an invalid checkpoint.",
        needs=needs.DETECTION,
        environment=("SLASH_ATTEST_DESCENDANT_OF_INVALID_PENALTY",),
    )
    slash_unknown_penalty: int = setting(
        _PENALTY,
        Amount(),
        SLASHING,
        "Penalty for an offense of an unknown kind.",
        needs=needs.SEQUENCER,
        environment=("SLASH_UNKNOWN_PENALTY",),
    )
    slash_offense_expiration_rounds: int = setting(
        4,
        Integer(0, 1_000_000),
        SLASHING,
        "After how many rounds an offense is forgotten.",
        needs=needs.DETECTION,
        environment=("SLASH_OFFENSE_EXPIRATION_ROUNDS",),
    )
    slash_max_payload_size: int = setting(
        50,
        Integer(0, 1_000_000),
        SLASHING,
        "Most places that one vote names.",
        needs=needs.SEQUENCER,
        environment=("SLASH_MAX_PAYLOAD_SIZE",),
    )
    slash_grace_period_l2_slots: int = setting(
        0,
        Integer(0, 1 << 40),
        SLASHING,
        "Slots after the network's start in which nothing is an offense.",
        needs=needs.DETECTION,
        environment=("SLASH_GRACE_PERIOD_L2_SLOTS",),
    )
    slash_invalid_block_penalty: int = setting(
        _PENALTY,
        Amount(),
        SLASHING,
        "Penalty for broadcasting an invalid block.",
        needs=needs.PEER_OFFENSES,
        environment=("SLASH_INVALID_BLOCK_PENALTY",),
    )
    slash_execute_rounds_look_back: int = setting(
        4,
        Integer(0, 1_000_000),
        SLASHING,
        "How many rounds back one is looked for that can be executed.",
        needs=needs.SEQUENCER,
        environment=("SLASH_EXECUTE_ROUNDS_LOOK_BACK",),
    )
    slash_self_allowed: bool = setting(
        False,
        Boolean(),
        SLASHING,
        "Vote against the node's own validators too.",
        needs=needs.SEQUENCER,
    )

    # ---- high availability ----------------------------------------------------------------

    validator_ha_signing_enabled: bool = setting(
        False,
        Boolean(),
        AVAILABILITY,
        "Agree with other nodes of the same validators, in a database, on who signs.",
        environment=("VALIDATOR_HA_SIGNING_ENABLED",),
        packages=("psycopg",),
    )
    validator_ha_database_url: str | None = setting(
        None,
        Text(metavar="URL"),
        AVAILABILITY,
        "The database: postgresql://...; prepare it with `fastnode migrate-ha-db up`.",
        needs=needs.HA_SIGNING,
        environment=("VALIDATOR_HA_DATABASE_URL",),
        secret=True,
    )
    validator_ha_node_id: str | None = setting(
        None,
        Text(metavar="NAME"),
        AVAILABILITY,
        "This node's name in the database; no other node may have it.",
        needs=needs.HA_SIGNING,
        environment=("VALIDATOR_HA_NODE_ID",),
    )
    validator_ha_polling_interval_ms: int = setting(
        100,
        Integer(1, _MILLISECONDS_MAX),
        AVAILABILITY,
        "How often another node's signature is waited for.",
        needs=needs.HA_SIGNING,
        environment=("VALIDATOR_HA_POLLING_INTERVAL_MS",),
    )
    validator_ha_signing_timeout_ms: int = setting(
        3000,
        Integer(1, _MILLISECONDS_MAX),
        AVAILABILITY,
        "How long another node's signature is waited for.",
        needs=needs.HA_SIGNING,
        environment=("VALIDATOR_HA_SIGNING_TIMEOUT_MS",),
    )
    validator_ha_max_stuck_duties_age_ms: int | None = setting(
        None,
        Integer(1, _MILLISECONDS_MAX),
        AVAILABILITY,
        "After how long an unfinished duty counts as stuck.",
        needs=needs.HA_SIGNING,
        environment=("VALIDATOR_HA_MAX_STUCK_DUTIES_AGE_MS",),
    )
    validator_ha_old_duties_max_age_h: int | None = setting(
        None,
        Integer(1, 1_000_000),
        AVAILABILITY,
        "After how many hours a finished duty is removed.",
        needs=needs.HA_SIGNING,
        environment=("VALIDATOR_HA_OLD_DUTIES_MAX_AGE_H",),
    )
    validator_ha_pool_max: int = setting(
        10,
        Integer(1, 10_000),
        AVAILABILITY,
        "Most connections to the database.",
        needs=needs.HA_SIGNING,
        environment=("VALIDATOR_HA_POOL_MAX",),
    )
    validator_ha_pool_min: int = setting(
        0,
        Integer(0, 10_000),
        AVAILABILITY,
        "Fewest connections to the database.",
        needs=needs.HA_SIGNING,
        environment=("VALIDATOR_HA_POOL_MIN",),
    )
    validator_ha_pool_idle_timeout_ms: int = setting(
        10_000,
        Integer(0, _MILLISECONDS_MAX),
        AVAILABILITY,
        "When an idle connection is closed; 0: never.",
        needs=needs.HA_SIGNING,
        environment=("VALIDATOR_HA_POOL_IDLE_TIMEOUT_MS",),
    )
    validator_ha_pool_connection_timeout_ms: int = setting(
        0,
        Integer(0, _MILLISECONDS_MAX),
        AVAILABILITY,
        "How long a connection is waited for; 0: without end.",
        needs=needs.HA_SIGNING,
        environment=("VALIDATOR_HA_POOL_CONNECTION_TIMEOUT_MS",),
    )
