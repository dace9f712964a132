"""Byte layout of a transaction's ``data`` buffer, and the fields its hash runs over: a value of each release.

The usual layout is drawn here; the record of a release may name other counts (releases/release.py).  All integers are
big-endian; nothing is padded.  The head, 697 bytes, is the same for both kinds (729
bytes where block headers have txEffectsTreeRoot: everything behind the anchor block header is 32 bytes further)::

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

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

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
from fastnode.protocol.header import HEADER_FIELDS, header_bytes, header_widths
from fastnode.records import dataclass

__all__ = ["USUAL", "HashPlan", "TxLayout", "layout_of"]

_U128: Final = 16
#: An amount of gas (daGas u32, l2Gas u32), and seconds.
_GAS: Final = 8
_TIME: Final = 8
_ETH: Final = 20
#: Widths of the values in the order of the hash: behind the anchor header the rest of the transaction's constants
#: (context, vkTreeRoot, protocolContractsHash), what comes last, a call request.
_CONTEXT_WIDTHS: Final = (32, 32, 4, 4, 4, 4, _U128, _U128, _U128, _U128, 32, 32)
_TAIL_WIDTHS: Final = (4, 4, 32, 8)
_CALL_REQUEST_WIDTHS: Final = (32, 32, 1, 32)
#: Place of the static flag in a call request.
_STATIC_FLAG: Final = 2 * FIELD_BYTES

#: Counts of one accumulated part, by their names in a record.
_USUAL_COUNTS: Final = {
    "noteHashes": NOTE_HASHES_PER_TX_MAX,
    "nullifiers": NULLIFIERS_PER_TX_MAX,
    "messages": L2_TO_L1_MESSAGES_PER_TX_MAX,
    "privateLogs": PRIVATE_LOGS_PER_TX_MAX,
    "privateLogFields": PRIVATE_LOG_FIELDS,
    "calls": 32,
    "headerFields": HEADER_FIELDS,
}


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


class TxLayout:
    """Offsets, sizes and plans of one layout.  Those of an accumulated part are from its own start.

    There is one object for the same counts (:func:`layout_of`), also of one that another process has sent.
    """

    for_public: Final = 0
    anchor_header: Final = 1

    message_bytes: Final = _ETH + 2 * FIELD_BYTES
    class_log_hash_bytes: Final = FIELD_BYTES + 4 + FIELD_BYTES
    call_request_bytes: Final = 3 * FIELD_BYTES + 1
    note_hashes: Final = 0

    def __init__(
        self,
        note_hashes: int,
        nullifiers: int,
        messages: int,
        private_logs: int,
        private_log_fields: int,
        calls: int,
        header_fields: int,
    ) -> None:
        self._counts = note_hashes, nullifiers, messages, private_logs, private_log_fields, calls, header_fields
        self.chain_id = self.anchor_header + header_bytes(header_fields)
        self.version = self.chain_id + FIELD_BYTES
        self.gas_limits = self.version + FIELD_BYTES
        self.teardown_gas_limits = self.gas_limits + _GAS
        self.max_fees = self.teardown_gas_limits + _GAS
        self.max_priority_fees = self.max_fees + 2 * _U128
        self.vk_tree_root = self.max_priority_fees + 2 * _U128
        self.protocol_contracts_hash = self.vk_tree_root + FIELD_BYTES
        self.gas_used = self.protocol_contracts_hash + FIELD_BYTES
        self.fee_payer = self.gas_used + _GAS
        self.expiration = self.fee_payer + FIELD_BYTES
        self.head_bytes = self.expiration + _TIME
        self.private_log_fields = private_log_fields
        self.private_log_bytes = private_log_fields * FIELD_BYTES + 4
        self.calls_max = calls
        self.nullifiers = note_hashes * FIELD_BYTES
        self.messages = self.nullifiers + nullifiers * FIELD_BYTES
        self.private_logs = self.messages + messages * self.message_bytes
        self.class_log_hashes = self.private_logs + private_logs * self.private_log_bytes
        self.call_requests = self.class_log_hashes + CONTRACT_CLASS_LOGS_PER_TX_MAX * self.class_log_hash_bytes
        self.public_accumulated_bytes = self.call_requests + calls * self.call_request_bytes

        self.accumulated = self.non_revertible = self.head_bytes
        self.revertible = self.non_revertible + self.public_accumulated_bytes
        self.teardown_request = self.revertible + self.public_accumulated_bytes
        self.private_data_bytes = self.accumulated + self.call_requests
        self.public_data_bytes = self.teardown_request + self.call_request_bytes
        #: Places of all flags of a public transaction: its kind, and the static flags of its calls.
        self.flags = (
            self.for_public,
            *(
                phase + self.call_requests + index * self.call_request_bytes + _STATIC_FLAG
                for phase in (self.non_revertible, self.revertible)
                for index in range(calls)
            ),
            self.teardown_request + _STATIC_FLAG,
        )

        accumulated = (
            (FIELD_BYTES,) * (note_hashes + nullifiers)
            + (_ETH, FIELD_BYTES, FIELD_BYTES) * messages
            + ((FIELD_BYTES,) * private_log_fields + (4,)) * private_logs
            + (FIELD_BYTES, 4, FIELD_BYTES) * CONTRACT_CLASS_LOGS_PER_TX_MAX
        )
        constants = (self.anchor_header, header_widths(header_fields) + _CONTEXT_WIDTHS)
        tail = (self.gas_used, _TAIL_WIDTHS)
        phase = accumulated + _CALL_REQUEST_WIDTHS * calls
        self.private_plan = _plan((constants, (self.accumulated, accumulated), tail))
        self.public_plan = _plan(
            (constants, (self.non_revertible, phase * 2), (self.teardown_request, _CALL_REQUEST_WIDTHS), tail)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _layout, (self._counts,)

    def data_bytes(self, *, public: bool) -> int:
        return self.public_data_bytes if public else self.private_data_bytes

    def plan(self, *, public: bool) -> HashPlan:
        return self.public_plan if public else self.private_plan

    @property
    def private_hash_fields(self) -> int:
        return len(self.private_plan.offsets)

    @property
    def public_hash_fields(self) -> int:
        return len(self.public_plan.offsets)

    def name_at(self, offset: int, *, public: bool) -> str:
        """Name of the member at a byte offset of ``data``, such as ``revertible.nullifiers[3]``; for messages only."""
        if offset < self.head_bytes:
            heads = reversed(_HEAD_NAMES)
            return next((name for place, name in heads if getattr(self, place) <= offset), "forPublic")
        if not public:
            return "accumulated." + self._accumulated_name(offset - self.accumulated)
        if offset >= self.teardown_request:
            return "publicTeardownCallRequest"
        if offset >= self.revertible:
            return "revertible." + self._accumulated_name(offset - self.revertible)
        return "nonRevertible." + self._accumulated_name(offset - self.non_revertible)

    def _accumulated_name(self, offset: int) -> str:
        members = (
            (self.note_hashes, "noteHashes", FIELD_BYTES),
            (self.nullifiers, "nullifiers", FIELD_BYTES),
            (self.messages, "l2ToL1Msgs", self.message_bytes),
            (self.private_logs, "privateLogs", self.private_log_bytes),
            (self.class_log_hashes, "contractClassLogsHashes", self.class_log_hash_bytes),
            (self.call_requests, "publicCallRequests", self.call_request_bytes),
        )
        start, name, stride = next(entry for entry in reversed(members) if entry[0] <= offset)
        return f"{name}[{(offset - start) // stride}]"


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


_HEAD_NAMES: Final = (
    ("anchor_header", "anchorBlockHeader"),
    ("chain_id", "txContext.chainId"),
    ("version", "txContext.version"),
    ("gas_limits", "txContext.gasSettings"),
    ("vk_tree_root", "vkTreeRoot"),
    ("protocol_contracts_hash", "protocolContractsHash"),
    ("gas_used", "gasUsed"),
    ("fee_payer", "feePayer"),
    ("expiration", "expirationTimestamp"),
)


def layout_of(counts: Mapping[str, int]) -> TxLayout:
    """The layout with the counts that a record names, and the usual ones beside; one object for equal ones.  KeyError
    for a name that is none."""
    for name in counts:
        _USUAL_COUNTS[name]
    return _layout(tuple((_USUAL_COUNTS | dict(counts)).values()))


@cache
def _layout(counts: tuple[int, ...]) -> TxLayout:
    return TxLayout(*counts)


#: Layout of a release that says nothing else.
USUAL: Final = layout_of({})

# The drawing above and the plans must not drift apart.
assert USUAL.private_data_bytes == 38557
assert USUAL.public_data_bytes == 82722
assert USUAL.private_hash_fields == 1281
assert USUAL.public_hash_fields == 2784
assert (USUAL.chain_id, USUAL.head_bytes) == (441, 697)
