"""The functions and events of the rollup's contracts that the node uses."""

from __future__ import annotations

from typing import Final

from fastnode.protocol.constants import CHECKPOINTS_PER_EPOCH_MAX
from fastnode.sources.l1.abi import Event, Function, Kind

_N, _C, _A, _B32, _B16, _FLAG = Kind.NUMBER, Kind.COUNT, Kind.ADDRESS, Kind.BYTES32, Kind.BYTES16, Kind.BOOLEAN

# ---- registry -------------------------------------------------------------------------------

CANONICAL_ROLLUP: Final = Function("getCanonicalRollup()", _A)
ROLLUP_OF_VERSION: Final = Function("getRollup(uint256)", _A)

GOVERNANCE: Final = Function("getGovernance()", _A)
GOVERNANCE_PROPOSER: Final = Function("governanceProposer()", _A)  # of the governance contract
OWNER: Final = Function("owner()", _A)  # of the fee asset: who issues it

# ---- rollup: what never changes ---------------------------------------------------------------

VERSION: Final = Function("getVersion()", _C)
INBOX: Final = Function("getInbox()", _A)
OUTBOX: Final = Function("getOutbox()", _A)
FEE_ASSET: Final = Function("getFeeAsset()", _A)
STAKING_ASSET: Final = Function("getStakingAsset()", _A)
REWARD_DISTRIBUTOR: Final = Function("getRewardDistributor()", _A)
STAKING_ESCROW: Final = Function("getGSE()", _A)
FEE_ASSET_PORTAL: Final = Function("getFeeAssetPortal()", _A)
DEPLOYMENT_BLOCK: Final = Function("L1_BLOCK_AT_GENESIS()", _C)
GENESIS_TIME: Final = Function("getGenesisTime()", _C)
SLOT_DURATION: Final = Function("getSlotDuration()", _C)
EPOCH_DURATION: Final = Function("getEpochDuration()", _C)
PROOF_SUBMISSION_EPOCHS: Final = Function("getProofSubmissionEpochs()", _C)
TARGET_COMMITTEE_SIZE: Final = Function("getTargetCommitteeSize()", _C)

# ---- slasher: how rounds are counted ----------------------------------------------------------

SLASHER: Final = Function("getSlasher()", _A)
SLASHING_PROPOSER: Final = Function("PROPOSER()", _A)
ROUND_SIZE_IN_EPOCHS: Final = Function("ROUND_SIZE_IN_EPOCHS()", _C)
SLASH_OFFSET_IN_ROUNDS: Final = Function("SLASH_OFFSET_IN_ROUNDS()", _C)

# ---- rollup: what changes ---------------------------------------------------------------------

PROVEN_CHECKPOINT: Final = Function("getProvenCheckpointNumber()", _C)
#: Archive root after a checkpoint; zero for one that does not exist.
ARCHIVE_AT: Final = Function("archiveAt(uint256)", _B32)
CAN_PRUNE_AT_TIME: Final = Function("canPruneAtTime(uint256)", _FLAG)
#: Proven checkpoint and its archive, pending checkpoint and its archive, archive of the checkpoint asked for (all zero
#: where there is none), epoch of the proven one.
STATUS: Final = Function("status(uint256)", _C, _B32, _C, _B32, _B32, _C)
#: Archive, header hash, blob commitments, out hash, attestations, payload digest, slot, then the fee header.
CHECKPOINT: Final = Function("getCheckpoint(uint256)", _B32, _B32, _B32, _B32, _B32, _B32, _N, _N, _N, _N, _N, _N)
#: Place of the slot in what ``CHECKPOINT`` gives; the fee header is behind it.
CHECKPOINT_SLOT: Final = 6

MANA_TARGET: Final = Function("getManaTarget()", _C)
MANA_LIMIT: Final = Function("getManaLimit()", _C)
PROVING_COST_PER_MANA: Final = Function("getProvingCostPerManaInEth()", _N)
#: At a time: base fee and blob fee of L1.
L1_FEES_AT: Final = Function("getL1FeesAt(uint256)", _N, _N)
#: At a time, in the fee asset (true) or in wei.
MANA_MIN_FEE_AT: Final = Function("getManaMinFeeAt(uint256,bool)", _N)

COMMITTEE_OF_EPOCH: Final = Function("getEpochCommittee(uint256)", Kind.ADDRESSES)
#: Committee of the epoch that a time is in, drawn now if it has not been before.
COMMITTEE_AT: Final = Function("getCommitteeAt(uint256)", Kind.ADDRESSES)
#: While the escape hatch is open, checkpoints need no attestations.
ESCAPE_HATCH: Final = Function("getEscapeHatch()", _A)
#: The one that counts for the proposals of an epoch: a new one does from the next epoch on.
ESCAPE_HATCH_OF_EPOCH: Final = Function("getEscapeHatchForEpoch(uint256)", _A)
IS_HATCH_OPEN: Final = Function("isHatchOpen(uint256)", _FLAG)
PROPOSER_AT: Final = Function("getProposerAt(uint256)", _A)

# ---- inbox and outbox -------------------------------------------------------------------------

#: Rolling hash (16 bytes and zeros up to 5.x), messages ever sent, the checkpoint that messages go to now (from 6.x on
#: the bucket).
INBOX_STATE: Final = Function("getState()", _B32, _C, _C)
#: Checkpoint and hash; index, rolling hash after it.
MESSAGE_SENT: Final = Event("MessageSent(uint256,uint256,bytes32,bytes16)", (_C, _B32), (_C, _B16))
#: From release 6.x on.  Leaf; rolling hash after it, bucket, the message, of which the last member is its index.
COMPACT_MESSAGE_SENT: Final = Event(
    "MessageSent(bytes32,bytes32,uint256,((address,uint256),(bytes32,uint256),bytes32,bytes32,uint256))",
    (_B32,),
    (_B32, _C, _A, _N, _B32, _N, _B32, _B32, _C),
)
#: Root of the messages of an epoch, zero if there is none yet.
OUTBOX_ROOT: Final = Function("getRootData(uint256)", _B32)
#: From release 5.x on: root of the messages of the first 1, 2, .. checkpoints of an epoch, zero where the epoch was not
#: proven by so many.
OUTBOX_ROOTS: Final = Function("getRoots(uint256)", *[_B32] * CHECKPOINTS_PER_EPOCH_MAX)

# ---- votes --------------------------------------------------------------------------------------

#: Type of the slashing proposer: votes are tallied per validator, or are for payloads.
SLASHING_PROPOSER_TYPE: Final = Function("SLASHING_PROPOSER_TYPE()", _C)
ROUND_SIZE: Final = Function("ROUND_SIZE()", _C)
LIFETIME_IN_ROUNDS: Final = Function("LIFETIME_IN_ROUNDS()", _C)
EXECUTION_DELAY_IN_ROUNDS: Final = Function("EXECUTION_DELAY_IN_ROUNDS()", _C)
IS_SLASHING_ENABLED: Final = Function("isSlashingEnabled()", _FLAG)
IS_VETOED: Final = Function("vetoedPayloads(address)", _FLAG)

#: Functions of a proposer that tallies votes per validator.
TALLY_QUORUM: Final = Function("QUORUM()", _C)
COMMITTEE_SIZE: Final = Function("COMMITTEE_SIZE()", _C)
SLASH_AMOUNTS: Final = tuple(Function(f"SLASH_AMOUNT_{size}()", _N) for size in ("SMALL", "MEDIUM", "LARGE"))
#: True if the round was executed; number of its votes.
TALLY_ROUND: Final = Function("getRound(uint256)", _FLAG, _C)
IS_ROUND_READY: Final = Function("isRoundReadyToExecute(uint256,uint256)", _FLAG)

#: Functions of contracts for votes on payloads, of slashing and of governance.
QUORUM_SIZE: Final = Function("QUORUM_SIZE()", _C)
ROUND_OF_SLOT: Final = Function("computeRound(uint256)", _C)
INSTANCE: Final = Function("getInstance()", _A)
#: Facts of a rollup's round: slot of the newest signal, payload with most of them, whether it was executed.
ROUND_DATA: Final = Function("getRoundData(address,uint256)", _C, _A, _FLAG)
SIGNAL_COUNT: Final = Function("signalCount(address,uint256,address)", _C)
