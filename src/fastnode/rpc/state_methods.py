"""The methods that read the five state trees: leaves, witnesses, public storage.

Every one but ``getWorldStateSyncStatus`` names a reference block and answers from the trees after it; only
``getBlockHashMembershipWitness`` looks at the archive *before* it, the one that block's header commits to.

A reference block that does not exist is an error that names it, as is one older than the kept history; a leaf
that is not in the tree is nothing found.  What differs from release 4.1.2, because there it is a fault:
block 0 is the genesis (there: the latest state), and ``findLeavesIndexes`` works on the public data tree, by slot.
"""

from __future__ import annotations

from typing import Final

from fastnode.errors import ServerError, UnknownBlock
from fastnode.kernels import encode
from fastnode.protocol.fields import hex_text, int_from_field
from fastnode.rpc.chain_parameters import MERKLE_TREE_ID, RELEASE_BLOCK, BlockReference, BlockReferenceKind
from fastnode.rpc.lookups import find_block
from fastnode.rpc.methods import Call, Method, Parameter, common
from fastnode.rpc.parameters import ADDRESS, BLOCK_HASH, FIELD, ArrayOf
from fastnode.world_state.view import WorldStateView
from fastnode.world_state.witnesses import membership_json, message_json, nullifier_json, public_data_json

__all__ = ["LEAVES_MAX", "METHODS", "reference_block"]

#: Leaves that one call may look for.
LEAVES_MAX: Final = 100

_FIRST_BLOCK: Final = 1


# ---- the reference block --------------------------------------------------------------------


def _state(call: Call) -> WorldStateView:
    state = call.view.state
    if state is None:
        raise ServerError("This node serves the chain without its state trees")
    return state


def reference_block(call: Call, reference: BlockReference) -> int:
    """Number of the block a parameter means; ServerError naming the block when this chain does not have it.

    A number is passed on as it is: the state itself says whether it is too new or too old.
    """
    if reference.kind is BlockReferenceKind.NUMBER:
        return int(reference.value)
    number = find_block(call.view.chain, reference)
    if number is None:
        named = "Block with archive" if reference.kind is BlockReferenceKind.ARCHIVE else "Block hash"
        message = (
            f"{named} {hex_text(reference.value)} not found: no such block on the chain of this node. "
            "If it was there before, a reorg has replaced it."
        )
        if reference.kind is BlockReferenceKind.HASH:
            raise UnknownBlock(message, reference.value)
        raise ServerError(message)
    return number


# ---- leaves and storage ---------------------------------------------------------------------


def find_leaves_indexes(call: Call, reference: BlockReference, tree_id: int, leaves: list[bytes]) -> bytes:
    """``[{l2BlockNumber, l2BlockHash, data} | null]`` in the order asked; ``data`` is the leaf index."""
    state = _state(call)
    places = state.find_leaves(tree_id, leaves, reference_block(call, reference))
    items = [
        b"null" if place is None else _place_json(index=place[0], block=place[1], block_hash=state.block_hash(place[1]))
        for place in places
    ]
    return b"[" + b",".join(items) + b"]"


def _place_json(*, index: int, block: int, block_hash: bytes) -> bytes:
    return b'{"l2BlockNumber":%d,"l2BlockHash":"%b","data":"%d"}' % (block, encode.to_hex(block_hash), index)


def get_public_storage_at(call: Call, reference: BlockReference, contract: bytes, slot: bytes) -> bytes:
    """The value of a contract's storage slot; zero when nothing was ever written there."""
    value = _state(call).public_storage(contract, slot, reference_block(call, reference))
    return b'"%b"' % encode.to_hex(value)


# ---- witnesses ------------------------------------------------------------------------------


def get_nullifier_witness(call: Call, reference: BlockReference, nullifier: bytes) -> bytes | None:
    witness = _state(call).nullifier_witness(nullifier, reference_block(call, reference))
    return None if witness is None else nullifier_json(witness)


def get_low_nullifier_witness(call: Call, reference: BlockReference, nullifier: bytes) -> bytes:
    """The leaf below a nullifier that is not in the tree.

    For one that is in it, the release set answers with its own leaf; the development set refuses.
    """
    witness = _state(call).low_nullifier_witness(nullifier, reference_block(call, reference))
    if witness.key == nullifier and _asks_for_development(call, reference):
        raise ServerError(
            f"Cannot prove nullifier non-inclusion: nullifier {int_from_field(nullifier)} already exists in the tree"
        )
    return nullifier_json(witness)


def _asks_for_development(call: Call, reference: BlockReference) -> bool:
    return call.method_set == "development" or reference.is_development_form


def get_public_data_witness(call: Call, reference: BlockReference, leaf_slot: bytes) -> bytes:
    """The leaf of a tree slot, or the leaf below it when nothing was ever written there."""
    return public_data_json(_state(call).public_data_witness(leaf_slot, reference_block(call, reference)))


def get_note_hash_witness(call: Call, reference: BlockReference, note_hash: bytes) -> bytes | None:
    witness = _state(call).note_hash_witness(note_hash, reference_block(call, reference))
    return None if witness is None else membership_json(witness)


def get_message_witness(call: Call, reference: BlockReference, message: bytes) -> bytes | None:
    witness = _state(call).message_witness(message, reference_block(call, reference))
    return None if witness is None else message_json(witness)


def get_block_hash_witness(call: Call, reference: BlockReference, block_hash: bytes) -> bytes | None:
    """A block before the reference block, in the archive that the reference block's header names."""
    witness = _state(call).block_hash_witness(block_hash, reference_block(call, reference))
    return None if witness is None else membership_json(witness)


# ---- status ---------------------------------------------------------------------------------


def get_world_state_sync_status(call: Call) -> bytes:
    chain, state = call.view.chain, _state(call)
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
        handler=find_leaves_indexes,
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
        handler=get_nullifier_witness,
        **common("NullifierMembershipWitness", _REFERENCE, Parameter("nullifier", FIELD), may_be_absent=True),
    ),
    Method(
        name="node_getLowNullifierMembershipWitness",
        summary="Proof that a nullifier is not in the nullifier tree: the leaf below it points past it.",
        handler=get_low_nullifier_witness,
        **common("NullifierMembershipWitness", _REFERENCE, Parameter("nullifier", FIELD), may_be_absent=True),
    ),
    Method(
        name="node_getPublicDataWitness",
        summary="Proof of a public data leaf, or of the leaf below it when its slot was never written.",
        handler=get_public_data_witness,
        **common("PublicDataWitness", _REFERENCE, Parameter("leafSlot", FIELD), may_be_absent=True),
    ),
    Method(
        name="node_getNoteHashMembershipWitness",
        summary="Proof that a note hash is in the note hash tree.",
        handler=get_note_hash_witness,
        **common("MembershipWitness", _REFERENCE, Parameter("noteHash", FIELD), may_be_absent=True),
    ),
    Method(
        name="node_getBlockHashMembershipWitness",
        summary="Proof that a block is an ancestor of the reference block, in the archive its header names.",
        handler=get_block_hash_witness,
        **common("MembershipWitness", _REFERENCE, Parameter("blockHash", BLOCK_HASH), may_be_absent=True),
    ),
    Method(
        name="node_getL1ToL2MessageMembershipWitness",
        summary="Leaf index of an L1 to L2 message and proof that it is in the message tree.",
        handler=get_message_witness,
        **common("[bigint, SiblingPath]", _REFERENCE, Parameter("l1ToL2Message", FIELD), may_be_absent=True),
    ),
    Method(
        name="node_getPublicStorageAt",
        summary="Value of a contract's public storage slot; zero when nothing was ever written there.",
        handler=get_public_storage_at,
        **common("Fr", _REFERENCE, Parameter("contract", ADDRESS), Parameter("slot", FIELD)),
    ),
    Method(
        name="node_getWorldStateSyncStatus",
        summary="Newest block in the state trees, the oldest that can be asked about, and the finalized one.",
        handler=get_world_state_sync_status,
        **common("WorldStateSyncStatus"),
    ),
]
