"""Checks of what a node answers, for those who trust no node: nothing here asks one.

A block header commits to the whole state after its block: its hash is the block hash, and in it are the roots of the
five trees.  So one hash that is known to be right, from L1 or from another node, is enough to check witnesses::

    header = verify.header(client.get_block_header(100), block_hash)
    witness = client.get_public_data_witness(100, verify.leaf_slot(contract, slot))
    value = verify.public_data(witness, header, verify.leaf_slot(contract, slot))

Fields are 32 bytes, or ``0x`` and 64 hex digits.  Every function raises :class:`VerificationError` with one line that
says what is wrong; what it returns is proven.  (Rules of the network: trees of Poseidon2, with the index of a leaf in
its witness; the leaves of the nullifier tree and of the public data tree are lists in order of their keys.)
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from fastnode.errors import DecodeError, VerificationError
from fastnode.kernels import encode, poseidon2
from fastnode.protocol.checkpoint import PublishedCheckpoint, block_headers_hash
from fastnode.protocol.fields import hex_text
from fastnode.protocol.header import BlockHeader
from fastnode.protocol.siloing import public_leaf_slot

__all__ = [
    "absent_nullifier",
    "block",
    "block_hash",
    "checkpoint",
    "header",
    "leaf_slot",
    "message",
    "note_hash",
    "nullifier",
    "public_data",
]

Field: TypeAlias = bytes | str
Json: TypeAlias = Mapping[str, Any]

#: Levels of the trees.
NOTE_HASH_HEIGHT: Final = 42
NULLIFIER_HEIGHT: Final = 42
PUBLIC_DATA_HEIGHT: Final = 40
MESSAGE_HEIGHT: Final = 36
ARCHIVE_HEIGHT: Final = 30

_FIELD_BYTES: Final = 32
_COUNT_BYTES: Final = 4
_ZERO: Final = bytes(_FIELD_BYTES)


# ---- blocks ----------------------------------------------------------------------------------------------


def block_hash(header: Json | None) -> str:
    """The hash of a block, from its header."""
    return hex_text(_header(header).hash())


def header(header: Json | None, expected_hash: Field) -> BlockHeader:
    """The header, if it is the one with that hash."""
    found = _header(header)
    actual, expected = found.hash(), _field(expected_hash, "the expected hash")
    if actual != expected:
        raise VerificationError(f"the header is that of block {hex_text(actual)}, not of {hex_text(expected)}")
    return found


def checkpoint(published: Json) -> tuple[str, ...]:
    """The hashes of a checkpoint's blocks, if they follow each other and are those that its header commits to.

    Takes what ``node_getCheckpoints`` of the release set gives.  Checked: the order of the blocks, the archive root
    that each builds on, the commitment to their headers, and the mana of all.  Not checked: their effects (blobs),
    the messages from and to L1, and the signatures.
    """
    try:
        found = PublishedCheckpoint.from_json(published).checkpoint
    except DecodeError as error:
        raise VerificationError(f"this is no checkpoint: {error}") from None
    if not found.blocks:
        raise VerificationError("the checkpoint has no block")
    _require_equal(
        "the archive root before the first block",
        found.blocks[0].header.last_archive.root,
        found.header.last_archive_root,
    )
    for before, after in zip(found.blocks, found.blocks[1:], strict=False):
        number = after.header.global_variables.block_number
        if number != before.header.global_variables.block_number + 1:
            raise VerificationError(f"block {number} does not follow the one before it")
        _require_equal(f"the archive root before block {number}", after.header.last_archive.root, before.archive.root)
    _require_equal("the archive root after the last block", found.blocks[-1].archive.root, found.archive.root)
    hashes = [block.header.hash() for block in found.blocks]
    _require_equal("the commitment to the blocks' headers", block_headers_hash(hashes), found.header.block_headers_hash)
    if found.total_mana_used != found.header.total_mana_used:
        raise VerificationError("the mana of the blocks is not that of the checkpoint")
    return tuple(map(hex_text, hashes))


# ---- witnesses -------------------------------------------------------------------------------------------


def leaf_slot(contract: Field, slot: Field) -> str:
    """The leaf of the public data tree in which a contract's storage slot is kept."""
    return hex_text(public_leaf_slot(_field(contract, "the contract"), _field(slot, "the slot")))


def public_data(witness: Json | None, header: BlockHeader, slot: Field) -> str:
    """The value at a leaf slot: what the witness proves, or zero if it proves that there is none."""
    found = _indexed(witness, "slot", "value", PUBLIC_DATA_HEIGHT)
    _require_leads_to(found, header.state.public_data_tree.root)
    wanted = _field(slot, "the slot")
    if found.key == wanted:
        return hex_text(found.value)
    _require_around(found, wanted)
    return hex_text(_ZERO)


def nullifier(witness: Json | None, header: BlockHeader, nullifier: Field) -> None:
    """The nullifier is in the tree."""
    found = _indexed(witness, "nullifier", None, NULLIFIER_HEIGHT)
    _require_equal("the nullifier", found.key, _field(nullifier, "the nullifier"))
    _require_leads_to(found, header.state.nullifier_tree.root)


def absent_nullifier(witness: Json | None, header: BlockHeader, nullifier: Field) -> None:
    """The nullifier is not in the tree; takes the witness of the low nullifier."""
    found = _indexed(witness, "nullifier", None, NULLIFIER_HEIGHT)
    _require_leads_to(found, header.state.nullifier_tree.root)
    _require_around(found, _field(nullifier, "the nullifier"))


def note_hash(witness: str | None, header: BlockHeader, note_hash: Field) -> int:
    """The index of a unique note hash in its tree."""
    index, path = _membership(witness, NOTE_HASH_HEIGHT)
    _require_root(_field(note_hash, "the note hash"), index, path, header.state.note_hash_tree.root)
    return index


def block(witness: str | None, header: BlockHeader, block_hash: Field) -> int:
    """The number of a block that came before the one of the header, proven by the archive."""
    index, path = _membership(witness, ARCHIVE_HEIGHT)
    _require_root(_field(block_hash, "the block hash"), index, path, header.last_archive.root)
    return index


def message(witness: Sequence[str] | None, header: BlockHeader, message: Field) -> int:
    """The index of a message from L1 in its tree."""
    if not isinstance(witness, Sequence) or isinstance(witness, str) or len(witness) != 2:
        raise VerificationError("the witness is not an index and a path")
    index, path = _index(witness[0]), _sibling_path(witness[1], MESSAGE_HEIGHT)
    _require_root(_field(message, "the message"), index, path, header.state.l1_to_l2_message_tree.root)
    return index


# ---- reading ---------------------------------------------------------------------------------------------


class _Indexed:
    """A leaf of a tree that is a list too, and its path."""

    __slots__ = ("index", "key", "next_index", "next_key", "path", "value")

    def __init__(self, index: int, key: bytes, value: bytes, next_key: bytes, next_index: int, path: bytes) -> None:
        self.index, self.path = index, path
        self.key, self.value = key, value
        self.next_key, self.next_index = next_key, next_index

    @property
    def hash(self) -> bytes:
        return poseidon2.hash_fields(
            b"".join((self.key, self.value, self.next_key, self.next_index.to_bytes(32, "big")))
        )


def _header(value: Json | None) -> BlockHeader:
    if value is None:
        raise VerificationError("there is no header")
    try:
        return BlockHeader.from_json(value)
    except DecodeError as error:
        raise VerificationError(f"this is no block header: {error}") from None


def _indexed(witness: Json | None, key: str, value: str | None, height: int) -> _Indexed:
    if witness is None:
        raise VerificationError("there is no witness")
    try:
        preimage = witness["leafPreimage"]
        leaf = preimage["leaf"]
        return _Indexed(
            _index(witness["index"]),
            _field(leaf[key], key),
            b"" if value is None else _field(leaf[value], value),
            _field(preimage["nextKey"], "nextKey"),
            _index(preimage["nextIndex"]),
            _sibling_path(witness["siblingPath"], height),
        )
    except (KeyError, TypeError) as error:
        raise VerificationError(f"this is no witness of a {key}: {error!r}") from None


def _membership(witness: str | None, height: int) -> tuple[int, bytes]:
    data = _base64(witness)
    if len(data) != _FIELD_BYTES * (1 + height):
        raise VerificationError(f"the witness is not one of a tree with {height} levels")
    return int.from_bytes(data[:_FIELD_BYTES], "big"), data[_FIELD_BYTES:]


def _sibling_path(text: object, height: int) -> bytes:
    data = _base64(text)
    if len(data) != _COUNT_BYTES + _FIELD_BYTES * height or int.from_bytes(data[:_COUNT_BYTES], "big") != height:
        raise VerificationError(f"the path is not one of a tree with {height} levels")
    return data[_COUNT_BYTES:]


def _base64(text: object) -> bytes:
    if text is None:
        raise VerificationError("there is no witness")
    try:
        return base64.b64decode(text, validate=True)  # type: ignore[arg-type]
    except (binascii.Error, ValueError, TypeError):
        raise VerificationError("the witness is not base64") from None


def _index(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        return int(value)
    raise VerificationError("an index is not decimal text")


def _field(value: object, name: str) -> bytes:
    if isinstance(value, bytes) and len(value) == _FIELD_BYTES:
        return value
    if isinstance(value, str):
        try:
            return encode.field_from_text(value)
        except ValueError:
            pass
    raise VerificationError(f"{name} is no field: 32 bytes, or 0x and hex digits")


# ---- judging ---------------------------------------------------------------------------------------------


def _require_equal(what: str, found: bytes, expected: bytes) -> None:
    if found != expected:
        raise VerificationError(f"{what} is {hex_text(found)}, not {hex_text(expected)}")


def _require_leads_to(leaf: _Indexed, root: bytes) -> None:
    _require_root(leaf.hash, leaf.index, leaf.path, root)


def _require_root(leaf: bytes, index: int, path: bytes, root: bytes) -> None:
    node, position = leaf, index
    for start in range(0, len(path), _FIELD_BYTES):
        sibling = path[start : start + _FIELD_BYTES]
        try:
            node = poseidon2.hash_fields(sibling + node if position & 1 else node + sibling)
        except ValueError:
            raise VerificationError("the path has a node that is no field") from None
        position >>= 1
    if position:
        raise VerificationError(f"index {index} is outside of a tree with {len(path) // _FIELD_BYTES} levels")
    if node != root:
        raise VerificationError(f"the path leads to {hex_text(node)}, not to the root {hex_text(root)}")


def _require_around(leaf: _Indexed, key: bytes) -> None:
    """The list goes past ``key`` from this leaf."""
    if not leaf.key < key or not (key < leaf.next_key or (leaf.next_key == _ZERO and leaf.next_index == 0)):
        raise VerificationError(f"the witness says nothing of {hex_text(key)}: it is of {hex_text(leaf.key)}")
