"""Byte layout of a transaction's ``data`` buffer, and the fields its hash runs over.

All integers are big-endian; nothing is padded.  The head, 697 bytes, is the same for both kinds::

      0  forPublic            u8: 1 = public layout, 0 = private only
      1  anchor block header  440 bytes (drawn in header.py)
    441  chainId 32 | version 32
    505  gasLimits            daGas u32, l2Gas u32
    513  teardownGasLimits    daGas u32, l2Gas u32
    521  maxFeesPerGas        daGas u128, l2Gas u128
    553  maxPriorityFeesPerGas  daGas u128, l2Gas u128
    585  vkTreeRoot 32
    617  protocolContractsHash 32
    649  gasUsed              daGas u32, l2Gas u32
    657  feePayer 32
    689  expirationTimestamp  u64, seconds

Accumulated data (offsets from its own start)::

        0  note hashes          64 x 32
     2048  nullifiers           64 x 32
     4096  L2->L1 messages       8 x (recipient 20, content 32, contract 32)
     4768  private logs         64 x (16 fields, emitted length u32)
    37792  class log hashes      1 x (value 32, length u32, contract 32)
    37860  public call requests 32 x (sender 32, contract 32, static u8, calldata hash 32)   public only

    private only:  697 accumulated                                                  end 38557
    public:        697 non-revertible | 41661 revertible | 82625 teardown request   end 82722

The hash takes one field per value, but in another order: gasUsed, feePayer and expirationTimestamp
come last there, although they stand before the accumulated data here.
"""

from __future__ import annotations

from typing import Final

from fastnode.kernels import field_runs
from fastnode.protocol.constants import (
    CONTRACT_CLASS_LOGS_PER_TX_MAX,
    L2_TO_L1_MESSAGES_PER_TX_MAX,
    NOTE_HASHES_PER_TX_MAX,
    NULLIFIERS_PER_TX_MAX,
    PRIVATE_LOG_FIELDS,
    PRIVATE_LOGS_PER_TX_MAX,
)
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.protocol.header import HEADER
from fastnode.records import dataclass

ENQUEUED_CALLS_PER_TX_MAX: Final = 32

FOR_PUBLIC: Final = 0
ANCHOR_HEADER: Final = 1
CHAIN_ID: Final = 441
VERSION: Final = 473
GAS_LIMITS: Final = 505
TEARDOWN_GAS_LIMITS: Final = 513
MAX_FEES: Final = 521
MAX_PRIORITY_FEES: Final = 553
VK_TREE_ROOT: Final = 585
PROTOCOL_CONTRACTS_HASH: Final = 617
GAS_USED: Final = 649
FEE_PAYER: Final = 657
EXPIRATION: Final = 689
HEAD_BYTES: Final = 697

MESSAGE_BYTES: Final = 20 + 2 * FIELD_BYTES
PRIVATE_LOG_BYTES: Final = PRIVATE_LOG_FIELDS * FIELD_BYTES + 4
CLASS_LOG_HASH_BYTES: Final = FIELD_BYTES + 4 + FIELD_BYTES
CALL_REQUEST_BYTES: Final = 3 * FIELD_BYTES + 1

NOTE_HASHES: Final = 0
NULLIFIERS: Final = NOTE_HASHES + NOTE_HASHES_PER_TX_MAX * FIELD_BYTES
MESSAGES: Final = NULLIFIERS + NULLIFIERS_PER_TX_MAX * FIELD_BYTES
PRIVATE_LOGS: Final = MESSAGES + L2_TO_L1_MESSAGES_PER_TX_MAX * MESSAGE_BYTES
CLASS_LOG_HASHES: Final = PRIVATE_LOGS + PRIVATE_LOGS_PER_TX_MAX * PRIVATE_LOG_BYTES
CALL_REQUESTS: Final = CLASS_LOG_HASHES + CONTRACT_CLASS_LOGS_PER_TX_MAX * CLASS_LOG_HASH_BYTES
PRIVATE_ACCUMULATED_BYTES: Final = CALL_REQUESTS
PUBLIC_ACCUMULATED_BYTES: Final = CALL_REQUESTS + ENQUEUED_CALLS_PER_TX_MAX * CALL_REQUEST_BYTES

ACCUMULATED: Final = HEAD_BYTES
NON_REVERTIBLE: Final = HEAD_BYTES
REVERTIBLE: Final = NON_REVERTIBLE + PUBLIC_ACCUMULATED_BYTES
TEARDOWN_REQUEST: Final = REVERTIBLE + PUBLIC_ACCUMULATED_BYTES

PRIVATE_DATA_BYTES: Final = ACCUMULATED + PRIVATE_ACCUMULATED_BYTES
PUBLIC_DATA_BYTES: Final = TEARDOWN_REQUEST + CALL_REQUEST_BYTES

PRIVATE_HASH_FIELDS: Final = 1281
PUBLIC_HASH_FIELDS: Final = 2784

_U128: Final = 16
_ETH: Final = 20
#: Widths of the values of the anchor header, in order.
#: The rest of the transaction's constants: context, vkTreeRoot, protocolContractsHash.
_CONTEXT_WIDTHS: Final = (32, 32, 4, 4, 4, 4, _U128, _U128, _U128, _U128, 32, 32)
_TAIL_WIDTHS: Final = (4, 4, 32, 8)
_CALL_REQUEST_WIDTHS: Final = (32, 32, 1, 32)


@dataclass(frozen=True, slots=True)
class HashPlan:
    """Cuts of the hashed fields in a ``data`` buffer.

    ``cuts`` take values out of the buffer and fill them up to fields; runs of whole fields are one cut.
    ``offsets`` holds the buffer offset of each hashed field, for error messages.
    """

    cuts: field_runs.Cuts
    offsets: tuple[int, ...]

    def run(self, data: bytes, separator: bytes) -> bytes:
        """Bytes to hash: the separator and the fields, joined."""
        return self.cuts.join(data, separator)


def _accumulated_widths(*, public: bool) -> tuple[int, ...]:
    widths = (
        (FIELD_BYTES,) * (NOTE_HASHES_PER_TX_MAX + NULLIFIERS_PER_TX_MAX)
        + (_ETH, FIELD_BYTES, FIELD_BYTES) * L2_TO_L1_MESSAGES_PER_TX_MAX
        + ((FIELD_BYTES,) * PRIVATE_LOG_FIELDS + (4,)) * PRIVATE_LOGS_PER_TX_MAX
        + (FIELD_BYTES, 4, FIELD_BYTES) * CONTRACT_CLASS_LOGS_PER_TX_MAX
    )
    return widths + _CALL_REQUEST_WIDTHS * ENQUEUED_CALLS_PER_TX_MAX if public else widths


def _plan(sections: tuple[tuple[int, tuple[int, ...]], ...]) -> HashPlan:
    """A plan from (start offset, widths of consecutive values) in the order of the hash."""
    cuts: list[tuple[int, int, int]] = []
    offsets: list[int] = []
    for start, widths in sections:
        position = start
        for width in widths:
            offsets.append(position)
            padding = FIELD_BYTES - width
            if not padding and cuts and cuts[-1][2] == position:
                cuts[-1] = (cuts[-1][0], cuts[-1][1], position + width)
            else:
                cuts.append((padding, position, position + width))
            position += width
    return HashPlan(field_runs.Cuts(cuts), tuple(offsets))


_CONSTANTS: Final = (ANCHOR_HEADER, HEADER.widths + _CONTEXT_WIDTHS)
_TAIL: Final = (GAS_USED, _TAIL_WIDTHS)

PRIVATE_PLAN: Final = _plan((_CONSTANTS, (ACCUMULATED, _accumulated_widths(public=False)), _TAIL))
PUBLIC_PLAN: Final = _plan(
    (
        _CONSTANTS,
        (NON_REVERTIBLE, _accumulated_widths(public=True) * 2),
        (TEARDOWN_REQUEST, _CALL_REQUEST_WIDTHS),
        _TAIL,
    )
)

# The drawing above and the plans must not drift apart.
assert PRIVATE_DATA_BYTES == 38557
assert PUBLIC_DATA_BYTES == 82722
assert len(PRIVATE_PLAN.offsets) == PRIVATE_HASH_FIELDS
assert len(PUBLIC_PLAN.offsets) == PUBLIC_HASH_FIELDS
assert ANCHOR_HEADER + HEADER.width == CHAIN_ID

_HEAD_NAMES: Final = (
    (ANCHOR_HEADER, "anchorBlockHeader"),
    (CHAIN_ID, "txContext.chainId"),
    (VERSION, "txContext.version"),
    (GAS_LIMITS, "txContext.gasSettings"),
    (VK_TREE_ROOT, "vkTreeRoot"),
    (PROTOCOL_CONTRACTS_HASH, "protocolContractsHash"),
    (GAS_USED, "gasUsed"),
    (FEE_PAYER, "feePayer"),
    (EXPIRATION, "expirationTimestamp"),
)
_ACCUMULATED_NAMES: Final = (
    (NOTE_HASHES, "noteHashes", FIELD_BYTES),
    (NULLIFIERS, "nullifiers", FIELD_BYTES),
    (MESSAGES, "l2ToL1Msgs", MESSAGE_BYTES),
    (PRIVATE_LOGS, "privateLogs", PRIVATE_LOG_BYTES),
    (CLASS_LOG_HASHES, "contractClassLogsHashes", CLASS_LOG_HASH_BYTES),
    (CALL_REQUESTS, "publicCallRequests", CALL_REQUEST_BYTES),
)


def name_at(offset: int, *, public: bool) -> str:
    """Name of the member at a byte offset of ``data``, such as ``revertible.nullifiers[3]``; for messages only."""
    if offset < HEAD_BYTES:
        return next((name for start, name in reversed(_HEAD_NAMES) if start <= offset), "forPublic")
    if not public:
        return "accumulated." + _accumulated_name(offset - ACCUMULATED)
    if offset >= TEARDOWN_REQUEST:
        return "publicTeardownCallRequest"
    if offset >= REVERTIBLE:
        return "revertible." + _accumulated_name(offset - REVERTIBLE)
    return "nonRevertible." + _accumulated_name(offset - NON_REVERTIBLE)


def _accumulated_name(offset: int) -> str:
    start, name, stride = next(entry for entry in reversed(_ACCUMULATED_NAMES) if entry[0] <= offset)
    return f"{name}[{(offset - start) // stride}]"
