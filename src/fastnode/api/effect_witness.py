"""Proof that a block has a transaction with these effects, against ``txEffectsTreeRoot`` of its header.

Nothing is stored for it: the leaves of the block's transactions are hashed again for each answer, and their root is
compared with the header's.
"""

from __future__ import annotations

from typing import Final

from fastnode.errors import ServerError
from fastnode.jsonrpc.methods import Context, Method, Parameter, Signature
from fastnode.kernels import encode
from fastnode.protocol.effects_tree import effect_witness
from fastnode.protocol.fields import hex_text
from fastnode.values.field_elements import TX_HASH

__all__ = ["METHOD"]


def _get(context: Context, tx_hash: bytes) -> bytes | None:
    """TxEffectMembershipWitness; None for a transaction that no block has.  BlockPruned when the body is not kept."""
    chain = context.view.chain
    release = chain.chain.release
    if not release.trees.has_effects_root:
        raise ServerError(f"Block headers of release {release.name} have no root over the effects of transactions")
    location = chain.tx_location(tx_hash)
    if location is None:
        return None
    block = chain.load_block(location.block_number)
    assert block is not None  # the view has it
    root = block.header.tx_effects_tree_root
    assert root is not None  # a block of such a release is not accepted without it
    witness = effect_witness(block.body.tx_effects, location.index_in_block)
    if witness.root != root:
        raise ServerError(
            f"The stored effects of block {block.number} have the root {hex_text(witness.root)}, its header "
            f"{hex_text(root)}: the database is damaged, see fastnode db check"
        )
    path = len(witness.sibling_path).to_bytes(4, "big") + b"".join(witness.sibling_path)
    return b'{"blockNumber":%d,"root":"%b","categoriesHash":"%b","leafIndex":"%d","siblingPath":"%b"}' % (
        block.number,
        encode.to_hex(witness.root),
        encode.to_hex(witness.categories_hash),
        witness.leaf_index,
        encode.to_base64(path),
    )


METHOD: Final = Method(
    name="node_getTxEffectMembershipWitness",
    summary="Proof that a block has a transaction with its effects, against the root in the block's header.",
    handler=_get,
    in_thread=True,
    is_cached=True,
    six=Signature("TxEffectMembershipWitness", (Parameter("txHash", TX_HASH),), may_be_absent=True),
)
