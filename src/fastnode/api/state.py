"""The methods that read the five state trees: leaves, witnesses, public storage.

Every one but ``getWorldStateSyncStatus`` names a reference block and answers from the trees after it; only
``getBlockHashMembershipWitness`` reads the archive *before* it, the one that block's header commits to.

A reference block that does not exist is an error that names it, as is one older than the kept history; a leaf
that is not in the tree is nothing found.  What differs from release 4.x, because there it is a fault:
block 0 is the genesis (there: the latest state), and ``findLeavesIndexes`` works on the public data tree, by slot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypedDict

from fastnode.api.chain_parameters import ARCHIVE_BLOCK, MERKLE_TREE_ID, RELEASE_BLOCK, BlockName, BlockReference
from fastnode.api.lookups import reference_block
from fastnode.errors import LeftToStrictPath, ServerError
from fastnode.jsonrpc.methods import Context, Method, MethodSet, Parameter, Read, Signature, common
from fastnode.kernels import encode, state_answers, witness_text
from fastnode.values.arrays import ArrayOf
from fastnode.values.field_elements import ADDRESS, BLOCK_HASH, FIELD
from fastnode.view import View
from fastnode.world_state.view import WorldStateView
from fastnode.world_state.witnesses import (
    IndexedWitness,
    nullifier_json,
)

__all__ = ["LEAVES_MAX", "METHODS"]

#: Leaves that one call may look for.
LEAVES_MAX: Final = 100
#: Leaves that are looked for on the event loop: each takes up to 0.05 ms.
LEAVES_ON_LOOP_MAX: Final = 20

FIELD_BYTES: Final = 32

_FIRST_BLOCK: Final = 1


# ---- the reference block --------------------------------------------------------------------


def _state(view: View) -> WorldStateView:
    state = view.state
    if state is None:
        raise ServerError("This node serves the chain without its state trees")
    return state


class Reads(TypedDict):
    """Keyword arguments of :class:`Method`."""

    read: Read
    shape: bytes
    is_cached: bool


def _reads(read: Callable[..., bytes | None], shape: bytes, kind: int) -> Reads:
    """``read(state, block, *values)``: a question to the trees after a block, and the answer as JSON, for what the
    kernel cannot say of questions of the ``kind``.
    """

    def ask(view: View, reference: BlockName, *values: Any) -> bytes | None:
        block = reference_block(view, reference)
        return read(_state(view), block, *values)

    return {"read": state_answers.StateQuestion(kind, ask, find=reference_block), "shape": shape, "is_cached": True}


# ---- leaves and storage ---------------------------------------------------------------------


def find_leaves_indexes(
    view: View,
    reference: BlockName,
    tree_id: int,
    leaves: Sequence[bytes] | bytes,
    *,
    context: Context | None = None,
) -> bytes:
    """``[{l2BlockNumber, l2BlockHash, data} | null]`` in the order asked; ``data`` is the leaf index.

    ``leaves`` may be joined; those are few, and of a tree that there is.
    """
    if isinstance(leaves, bytes):
        leaves = [leaves[place : place + FIELD_BYTES] for place in range(0, len(leaves), FIELD_BYTES)]
    if context is None and (tree_id not in MERKLE_TREE_ID.choices or len(leaves) > LEAVES_ON_LOOP_MAX):
        raise LeftToStrictPath(f"{len(leaves)} leaves of tree {tree_id}")
    block = reference_block(view, reference)
    return _find_leaves(_state(view), block, tree_id, leaves)


def _find_leaves(state: WorldStateView, block: int, tree_id: int, leaves: Sequence[bytes]) -> bytes:
    places = state.find_leaves(tree_id, leaves, block)
    items = [
        b"null" if place is None else _place_json(index=place[0], block=place[1], block_hash=state.block_hash(place[1]))
        for place in places
    ]
    return b"[" + b",".join(items) + b"]"


def _place_json(*, index: int, block: int, block_hash: bytes) -> bytes:
    return b'{"l2BlockNumber":%d,"l2BlockHash":"%b","data":"%d"}' % (block, encode.to_hex(block_hash), index)


def public_storage_at(state: WorldStateView, block: int, contract: bytes, slot: bytes) -> bytes:
    """The value of a contract's storage slot; zero when nothing was ever written there."""
    value = state.public_storage(contract, slot, block)
    return b'"%b"' % encode.to_hex(value)


# ---- witnesses ------------------------------------------------------------------------------


def nullifier_witness(state: WorldStateView, block: int, nullifier: bytes) -> bytes | None:
    return state.nullifier_witness_json(nullifier, block)


def _low_nullifier_witness_in(method_set: MethodSet) -> Read:
    """The leaf below a nullifier that is not in the tree.

    For one that is in it, the release set answers with its own leaf; in the development set there is none.
    """

    def read(view: View, reference: BlockName, nullifier: bytes) -> bytes | None:
        block = reference_block(view, reference)
        proves_absence = method_set == "development" or (
            isinstance(reference, BlockReference) and reference.is_development_form
        )
        state = _state(view)
        if proves_absence:
            return _absent_if_present(state.low_nullifier_witness(nullifier, block), nullifier)
        return state.low_nullifier_witness_json(nullifier, block)

    return (
        read if method_set == "development" else state_answers.StateQuestion(state_answers.LOW_NULLIFIER_WITNESS, read)
    )


def _low_nullifier_witness_in_five(view: View, reference: BlockName, nullifier: bytes) -> bytes:
    """As in the development set, but for one that is in the tree there is an error."""
    witness = _state(view).low_nullifier_witness(nullifier, reference_block(view, reference))
    if witness.key == nullifier:
        number = int.from_bytes(nullifier, "big")
        raise ServerError(f"Cannot prove nullifier non-inclusion: nullifier {number} already exists in the tree")
    return nullifier_json(witness)


def _absent_if_present(witness: IndexedWitness, nullifier: bytes) -> bytes | None:
    """Nothing proves the absence of a nullifier that is there."""
    return None if witness.key == nullifier else nullifier_json(witness)


def public_data_witness(state: WorldStateView, block: int, leaf_slot: bytes) -> bytes:
    """The leaf of a tree slot, or the leaf below it when nothing was ever written there."""
    return state.public_data_witness_json(leaf_slot, block)


def note_hash_witness(state: WorldStateView, block: int, note_hash: bytes) -> bytes | None:
    witness = state.note_hash_witness(note_hash, block)
    return None if witness is None else witness_text.membership(witness.index, witness.path)


def message_witness(state: WorldStateView, block: int, message: bytes) -> bytes | None:
    witness = state.message_witness(message, block)
    return None if witness is None else witness_text.message(witness.index, witness.path)


def block_hash_witness(state: WorldStateView, block: int, block_hash: bytes) -> bytes | None:
    """A block before the reference block, in the archive that the reference block's header names."""
    witness = state.block_hash_witness(block_hash, block)
    return None if witness is None else witness_text.membership(witness.index, witness.path)


def _block_after(view: View, reference: BlockName) -> int:
    """Number of the block whose header has the archive of ``reference``; it need not exist yet."""
    return reference_block(view, reference) + 1


def _block_hash_witness_at(view: View, reference: BlockName, block_hash: bytes) -> bytes | None:
    return block_hash_witness(_state(view), _block_after(view, reference), block_hash)


_BLOCK_HASH_WITNESS_AT: Final = state_answers.StateQuestion(
    state_answers.BLOCK_HASH_WITNESS, _block_hash_witness_at, find=_block_after
)


def get_block_hash_witness_at(context: Context, reference: BlockReference, block_hash: bytes) -> bytes | None:
    """MembershipWitness of a block in the archive with the root that ``reference`` names."""
    return _BLOCK_HASH_WITNESS_AT(context.view, reference, block_hash)


# ---- status ---------------------------------------------------------------------------------


def get_world_state_sync_status(context: Context) -> bytes:
    chain, state = context.view.chain, _state(context.view)
    tip = state.tip.number
    # Counted from the first block, as in the reference; block 0 can be read too while nothing is pruned.
    oldest = min(max(state.oldest, _FIRST_BLOCK), tip)
    return (
        b'{"latestBlockNumber":%d,"latestBlockHash":"%b","finalizedBlockNumber":%d,'
        b'"oldestHistoricBlockNumber":%d,"treesAreSynched":%b}'
    ) % (
        tip,
        encode.to_hex(state.tip.block_hash if tip else chain.tips.proposed.hash),
        chain.tips.finalized.block.number,
        oldest,
        b"true" if tip == chain.tip_number else b"false",
    )


# ---- table ----------------------------------------------------------------------------------

_REFERENCE: Final = Parameter("referenceBlock", RELEASE_BLOCK)

METHODS: Final[list[Method]] = [
    Method(
        name="node_findLeavesIndexes",
        summary="Index of each leaf in a tree, and the block that inserted it; null for one that is not there.",
        read=find_leaves_indexes,
        shape=b"bnt",
        is_cached=True,
        in_thread=lambda arguments: len(arguments[2]) > LEAVES_ON_LOOP_MAX,
        **common(
            "(DataInBlock|null)[]",
            _REFERENCE,
            Parameter("treeId", MERKLE_TREE_ID),
            Parameter("leafValues", ArrayOf(FIELD, LEAVES_MAX)),
        ),
    ),
    Method(
        name="node_getNullifierMembershipWitness",
        summary="Proof that a nullifier is in the nullifier tree.",
        **_reads(nullifier_witness, b"bf", state_answers.NULLIFIER_WITNESS),
        **common("NullifierMembershipWitness", _REFERENCE, Parameter("nullifier", FIELD), may_be_absent=True),
    ),
    Method(
        name="node_getLowNullifierMembershipWitness",
        summary="Proof that a nullifier is not in the nullifier tree: the leaf below it points past it.",
        read={
            "both": _low_nullifier_witness_in("both"),
            "release": _low_nullifier_witness_in("release"),
            "development": _low_nullifier_witness_in("development"),
            "5.x": _low_nullifier_witness_in_five,
        },
        shape=b"bf",
        is_cached=True,
        **common("NullifierMembershipWitness", _REFERENCE, Parameter("nullifier", FIELD), may_be_absent=True),
    ),
    Method(
        name="node_getPublicDataWitness",
        summary="Proof of a public data leaf, or of the leaf below it when its slot was never written.",
        **_reads(public_data_witness, b"bf", state_answers.PUBLIC_DATA_WITNESS),
        **common("PublicDataWitness", _REFERENCE, Parameter("leafSlot", FIELD), may_be_absent=True),
    ),
    Method(
        name="node_getNoteHashMembershipWitness",
        summary="Proof that a note hash is in the note hash tree.",
        **_reads(note_hash_witness, b"bf", state_answers.NOTE_HASH_WITNESS),
        **common("MembershipWitness", _REFERENCE, Parameter("noteHash", FIELD), may_be_absent=True),
    ),
    Method(
        name="node_getBlockHashMembershipWitness",
        summary="Proof that a block is an ancestor of the reference block, in the archive its header names.",
        **_reads(block_hash_witness, b"bf", state_answers.BLOCK_HASH_WITNESS),
        **common("MembershipWitness", _REFERENCE, Parameter("blockHash", BLOCK_HASH), may_be_absent=True),
    ),
    Method(
        name="node_getBlockHashMembershipWitnessAtArchive",
        summary="Proof that a block is in the archive with this root: the one after some block, which has that block.",
        handler=get_block_hash_witness_at,
        is_cached=True,
        six=Signature(
            "MembershipWitness",
            (Parameter("reference", ARCHIVE_BLOCK), Parameter("blockHash", BLOCK_HASH)),
            may_be_absent=True,
        ),
    ),
    Method(
        name="node_getL1ToL2MessageMembershipWitness",
        summary="Leaf index of an L1 to L2 message and proof that it is in the message tree.",
        **_reads(message_witness, b"bf", state_answers.MESSAGE_WITNESS),
        **common("[bigint, SiblingPath]", _REFERENCE, Parameter("l1ToL2Message", FIELD), may_be_absent=True),
    ),
    Method(
        name="node_getPublicStorageAt",
        summary="Value of a contract's public storage slot; zero when nothing was ever written there.",
        **_reads(public_storage_at, b"bhf", state_answers.STORAGE),
        **common("Fr", _REFERENCE, Parameter("contract", ADDRESS), Parameter("slot", FIELD)),
    ),
    Method(
        name="node_getWorldStateSyncStatus",
        summary="Newest block in the state trees, the oldest that can be asked about, and the finalized one.",
        handler=get_world_state_sync_status,
        is_cached=True,
        **common("WorldStateSyncStatus"),
    ),
]
