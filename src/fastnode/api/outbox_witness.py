"""Witness with which L1 consumes a message: the proof that it is among the messages of its epoch.

An epoch can be proven in parts.  The root on L1 is that of its first n checkpoints, and the proof must be for the
same n.  A node that reads L1 takes the root that is there; any other takes it that L1 has the root of all checkpoints
of the epoch that are proven.

From release 5.x on L1 keeps the root of each n that the epoch was proven by, and is told which one a proof is for: the
smallest n that covers the message serves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import orjson

from fastnode.api.lookups import checkpoint_of_tip
from fastnode.errors import ServerError, UpstreamUnavailable
from fastnode.jsonrpc.methods import Context, Method, Parameter, Signature
from fastnode.kernels import encode
from fastnode.protocol.fields import ZERO_FIELD
from fastnode.protocol.out_hash import l2_to_l1_witness
from fastnode.values.field_elements import FIELD, TX_HASH
from fastnode.values.numbers import Integer

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.archiver.records import StoredCheckpoint

__all__ = ["OutboxRoots", "witness_method"]

#: ``outbox_roots(epoch)``: the roots on L1, zero for none; blocks; UpstreamUnavailable.  One root, or where the release
#: of the chain has them those of the first 1, 2, .. checkpoints.
OutboxRoots: TypeAlias = Callable[[int], Sequence[bytes]]

_INDEX: Final = Integer(name="number", minimum=0)


def witness_method(outbox_roots: OutboxRoots | None) -> Method:
    """node_getL2ToL1MembershipWitness; ``outbox_roots`` None: L1 is not read."""
    return Method(
        name="node_getL2ToL1MembershipWitness",
        summary="What L1 needs to consume an L2-to-L1 message; absent until its epoch is proven that far.",
        handler=_Witnesses(outbox_roots).get,
        in_thread=True,
        waits=True,
        development=Signature(
            "L2ToL1MembershipWitness",
            (
                Parameter("txHash", TX_HASH),
                Parameter("message", FIELD),
                Parameter("messageIndexInTx", _INDEX, optional=True),
            ),
            may_be_absent=True,
        ),
    )


class _Witnesses:
    def __init__(self, outbox_roots: OutboxRoots | None) -> None:
        self._outbox_roots = outbox_roots

    def get(self, context: Context, tx_hash: bytes, message: bytes, message_index: int | None = None) -> bytes | None:
        """L2ToL1MembershipWitness; None for an unknown transaction, or when no root covers it yet."""
        chain = context.view.chain
        location = chain.tx_location(tx_hash)
        block = None if location is None else chain.block_info(location.block_number)
        if location is None or block is None:
            return None
        epoch = block.slot_number // chain.chain.epoch_duration
        covered = self._covered(chain, epoch, block.checkpoint_number)
        if block.checkpoint_number not in covered:
            return None
        messages = [_messages_of_checkpoint(chain, _checkpoint(chain, number)) for number in covered]
        position = (covered.index(block.checkpoint_number), block.index_within_checkpoint, location.index_in_block)
        of_tx = messages[position[0]][position[1]][position[2]]
        place = _place_in_tx(of_tx, message, message_index)
        if place is None:
            return None
        witness = l2_to_l1_witness(messages, *position, place)
        return b'{"epochNumber":%d,"numCheckpointsInEpoch":%d,"root":"%b","leafIndex":"%d","siblingPath":"%b"}' % (
            epoch,
            len(covered),
            encode.to_hex(witness.root),
            witness.leaf_index,
            encode.to_base64(witness.sibling_path_buffer()),
        )

    def _covered(self, chain: ChainView, epoch: int, wanted: int) -> range:
        """Checkpoints of the epoch that the root on L1 is of; empty if there is no root that covers ``wanted``."""
        of_epoch = chain.checkpoint_numbers_of_epoch(epoch)
        if self._outbox_roots is None:
            return range(of_epoch.start, min(of_epoch.stop, checkpoint_of_tip(chain, "proven") + 1))
        try:
            roots = self._outbox_roots(epoch)
        except UpstreamUnavailable as error:
            raise ServerError(
                "L1 does not answer at the moment; try again later", data={"code": "L1_UNAVAILABLE"}
            ) from error
        if wanted not in of_epoch:
            return range(0)
        local = [_epoch_out_hash(_checkpoint(chain, number)) for number in of_epoch]
        find = _count_by_roots if chain.chain.release.has_roots_by_count else _count_by_root
        count = find(epoch, local, roots, wanted - of_epoch.start)
        return range(of_epoch.start, of_epoch.start + count)


def _count_by_root(epoch: int, local: Sequence[str], roots: Sequence[bytes], wanted: int) -> int:
    """Number of checkpoints that the one root is of; 0 if it does not cover the place ``wanted``.

    ``local``: root of the messages up to and with each checkpoint of the epoch.  ServerError for another root."""
    root = roots[0]
    if root == ZERO_FIELD:
        return 0
    text = encode.to_hex(root).decode()
    if text not in local:
        raise _mismatch(epoch, len(local), local[-1], text)
    # Checkpoints without messages leave the root as it is.
    return next((place + 1 for place, item in enumerate(local) if item == text and place >= wanted), 0)


def _count_by_roots(epoch: int, local: Sequence[str], roots: Sequence[bytes], wanted: int) -> int:
    """The smallest number of checkpoints that has a root and covers the place ``wanted``, else 0.  ServerError when its
    root is another one here; ``local`` as for :func:`_count_by_root`."""
    counts = range(wanted + 1, min(len(local), len(roots)) + 1)
    count = next((count for count in counts if roots[count - 1] != ZERO_FIELD), 0)
    if count:
        text = encode.to_hex(roots[count - 1]).decode()
        if text != local[count - 1]:
            raise _mismatch(epoch, count, local[count - 1], text)
    return count


def _mismatch(epoch: int, count: int, local: str, outbox: str) -> ServerError:
    return ServerError(
        f"Local epoch out-hash does not match Outbox at epoch {epoch} numCheckpointsInEpoch {count}: "
        f"local={local} outbox={outbox}"
    )


def _checkpoint(chain: ChainView, number: int) -> StoredCheckpoint:
    checkpoint = chain.checkpoint(number)
    assert checkpoint is not None  # it is in an epoch of this view
    return checkpoint


def _epoch_out_hash(checkpoint: StoredCheckpoint) -> str:
    """Root of the epoch's messages up to and with this checkpoint."""
    text: str = orjson.loads(checkpoint.header_json)["epochOutHash"]
    return text


def _messages_of_checkpoint(chain: ChainView, checkpoint: StoredCheckpoint) -> list[list[list[bytes]]]:
    blocks = range(checkpoint.start_block, checkpoint.last_block + 1)
    return [chain.l2_to_l1_messages_of_block(number) or [] for number in blocks]


def _place_in_tx(messages: list[bytes], message: bytes, index: int | None) -> int | None:
    """The place of ``message`` among those of its transaction, which must be without doubt; None if it has none."""
    text = encode.to_hex(message).decode()
    if index is not None:
        if index >= len(messages) or messages[index] != message:
            raise ServerError(f"Message at index {index} in tx does not match the expected message {text}")
        return index
    places = [place for place, candidate in enumerate(messages) if candidate == message]
    if not places:
        return None
    if len(places) > 1:
        listed = ", ".join(map(str, places))
        raise ServerError(
            f"Multiple messages with the same value {text} found in tx (indices: {listed}). "
            "Provide messageIndexInTx to disambiguate."
        )
    return places[0]
