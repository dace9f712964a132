"""The tree over the effects of a block's transactions, whose root is in block headers from release 6.x on (AZIP-26).

H(d, ...) is Poseidon2 over the separator d and the fields that follow.  Of each transaction::

    category     H(TX_EFFECT_CATEGORY, preimage), 0 for an empty preimage; seven preimages in this order:
                 note hashes | nullifiers | L2->L1 messages | (leaf slot, value) per public data write
                 | (length, emitted fields) per private log | (field count, contract, fields) per public log
                 | (contract, hash of the padded log) of the class log, when there is one
    categories   H(TX_EFFECT_CATEGORIES, tx start marker of the blob, fee, the seven category hashes)
    leaf         H(TX_EFFECTS_TREE_LEAF, tx hash, categories)

The tree has one leaf per transaction, in the order of the block and without padding: the left subtree takes the
largest power of two below the number of leaves, a node is H(TX_EFFECTS_TREE, left, right), a single leaf is its own
root, and the root of a block without transactions is 0.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from fastnode.kernels import poseidon2
from fastnode.protocol.blobs import tx_blob_fields
from fastnode.protocol.effects import TxEffect
from fastnode.protocol.fields import FIELD_BYTES, ZERO_FIELD, field_from_int
from fastnode.protocol.hashing import poseidon2_unbalanced_levels, poseidon2_unbalanced_root
from fastnode.records import dataclass

__all__ = ["EffectWitness", "categories_hash", "effect_witness", "effects_root", "effects_tree_leaf"]

_CATEGORY: Final = field_from_int(1030022731)
_CATEGORIES: Final = field_from_int(1426387399)
_LEAF: Final = field_from_int(1186802524)
_NODE: Final = field_from_int(2908237871)

#: Leaves by digests of the effects, the newest last: a block that is derived is verified a moment later, as one of any
#: source is.
_newest_leaves: Final[OrderedDict[bytes, bytes]] = OrderedDict()
_NEWEST_LEAVES_MAX: Final = 512

_START_MARKER: Final = slice(0, FIELD_BYTES)
_FEE: Final = slice(2 * FIELD_BYTES, 3 * FIELD_BYTES)


def categories_hash(effect: TxEffect) -> bytes:
    """Return the commitment (32 bytes) to everything in ``effect`` but the hash of its transaction."""
    fields = tx_blob_fields(effect)
    at = _FEE.stop
    hashes = []
    for count in _category_fields(effect):
        end = at + count * FIELD_BYTES
        hashes.append(_category(fields[at:end]))
        at = end
    class_logs = [
        log.contract_address + poseidon2.hash_fields(log.padded)
        for log in effect.contract_class_logs
        if log.emitted_length
    ]
    hashes.append(_category(b"".join(class_logs)))
    return poseidon2.hash_fields(_CATEGORIES + fields[_START_MARKER] + fields[_FEE] + b"".join(hashes))


def effects_tree_leaf(effect: TxEffect) -> bytes:
    """Return the leaf (32 bytes) of one transaction."""
    content = [tx_blob_fields(effect), *(log.fields for log in effect.contract_class_logs)]
    digest = sha256(b"".join(content)).digest()
    known = _newest_leaves.get(digest)
    if known is None:
        known = _newest_leaves[digest] = _leaf(effect.tx_hash, categories_hash(effect))
        while len(_newest_leaves) > _NEWEST_LEAVES_MAX:
            _newest_leaves.popitem(last=False)
    return known


def effects_root(effects: Sequence[TxEffect]) -> bytes:
    """Return ``txEffectsTreeRoot`` (32 bytes) of a block with these effects, in order."""
    if not effects:
        return ZERO_FIELD
    return poseidon2_unbalanced_root([effects_tree_leaf(effect) for effect in effects], _NODE)


@dataclass(frozen=True, slots=True)
class EffectWitness:
    """Proof that the effects of one transaction are in the tree of its block.

    ``leaf_index``: index of the leaf at its own depth; bit j tells whether the node of step j is a right child.
    ``sibling_path``: from the leaf to the root.
    """

    root: bytes
    categories_hash: bytes
    leaf_index: int
    sibling_path: tuple[bytes, ...]


def effect_witness(effects: Sequence[TxEffect], index: int) -> EffectWitness:
    """Return the witness of the transaction at ``index`` of a block; IndexError when there is none."""
    hashes = [categories_hash(effect) for effect in effects]
    leaves = [_leaf(effect.tx_hash, categories) for effect, categories in zip(effects, hashes, strict=True)]
    levels = poseidon2_unbalanced_levels(leaves, _NODE)
    position, leaf_index = index, 0
    path: list[bytes] = []
    for level in levels[:-1]:
        # A node that goes up unpaired has no sibling there, and no bit.
        if sibling := level[(position ^ 1) * FIELD_BYTES : ((position ^ 1) + 1) * FIELD_BYTES]:
            leaf_index |= (position & 1) << len(path)
            path.append(sibling)
        position >>= 1
    return EffectWitness(levels[-1], hashes[index], leaf_index, tuple(path))


def _leaf(tx_hash: bytes, categories: bytes) -> bytes:
    return poseidon2.hash_fields(_LEAF + tx_hash + categories)


def _category(preimage: bytes) -> bytes:
    return poseidon2.hash_fields(_CATEGORY + preimage) if preimage else ZERO_FIELD


def _category_fields(effect: TxEffect) -> tuple[int, ...]:
    """Return the number of blob fields of each category but class logs, in the order of the blob."""
    return (
        len(effect.note_hashes),
        len(effect.nullifiers),
        len(effect.l2_to_l1_msgs),
        2 * len(effect.public_data_writes),
        sum(1 + log.emitted_length for log in effect.private_logs),
        sum(2 + len(log.fields) for log in effect.public_logs),
    )
