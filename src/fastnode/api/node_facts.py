"""Facts about a node and its network, which 5.x tells more of than 4.x."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import orjson

from fastnode.api.node_info import Asked, node_info
from fastnode.jsonrpc.methods import Context
from fastnode.protocol.fields import hex_text

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainInfo

__all__ = ["get_node_info", "get_protocol_contract_addresses"]

#: Most gas of one transaction in 5.x: DA, L2.
DA_GAS_MAX: Final = 271_200
L2_GAS_MAX: Final = 6_540_000
#: Seconds of a slot in which no block is built, and those of a block, as nodes of 5.x have them unless set otherwise.
IDLE_S: Final = 12
BLOCK_S: Final = 6
#: Shares of a block, of an even split of its checkpoint, that one transaction may have.
DA_SHARE: Final = 1.5
L2_SHARE: Final = 1.2
#: Fields of the blobs of a checkpoint; those of its end; of the end of its first block and of each other one.
BLOB_FIELDS: Final = 6 * 4096
CHECKPOINT_END_FIELDS: Final = 1
FIRST_BLOCK_END_FIELDS: Final = 7
BLOCK_END_FIELDS: Final = 6
DA_GAS_PER_FIELD: Final = 32


def get_node_info(own_record: Callable[[], str | None] | None) -> Callable[[Context], bytes]:
    """Handler of node_getNodeInfo; ``own_record`` gives this node's record on the peer-to-peer network."""

    def handle(context: Context) -> bytes:
        chain = context.view.chain.chain
        info = node_info(Asked(chain, None if own_record is None else own_record()))
        if context.is_five_or_later:
            info = info | {"protocolContractAddresses": _addresses_in_five(chain), "txsLimits": _txs_limits(chain)}
        return orjson.dumps(info)

    return handle


def get_protocol_contract_addresses(context: Context) -> bytes:
    """Handler of node_getProtocolContractAddresses."""
    chain = context.view.chain.chain
    named = chain.node_info["protocolContractAddresses"]
    return orjson.dumps(_addresses_in_five(chain) if context.is_five_or_later else named)


def _addresses_in_five(chain: ChainInfo) -> dict[str, str]:
    """Nodes name the standard entrypoint beside the protocol's own contracts, also where the chain was learned without
    it."""
    named: dict[str, str] = chain.node_info["protocolContractAddresses"]
    return {"multiCallEntrypoint": hex_text(chain.release.addresses.multi_call_entrypoint)} | named


def _txs_limits(chain: ChainInfo) -> dict[str, Any]:
    """Most gas that one transaction may declare: a share of a block as a checkpoint of the network has them."""
    constants = chain.l1_constants
    blocks = max(1, (int(constants["slotDuration"]) - IDLE_S) // BLOCK_S)
    later = FIRST_BLOCK_END_FIELDS if chain.release.trees.has_compact_messages else BLOCK_END_FIELDS
    ends = CHECKPOINT_END_FIELDS + FIRST_BLOCK_END_FIELDS + (blocks - 1) * later
    da_gas = max(0, BLOB_FIELDS - ends) * DA_GAS_PER_FIELD
    mana = int(constants.get("rollupManaLimit", L2_GAS_MAX * blocks))
    return {
        "gas": {
            "daGas": min(DA_GAS_MAX, da_gas, ceil(da_gas / blocks * DA_SHARE)),
            "l2Gas": min(L2_GAS_MAX, mana, ceil(mana / blocks * L2_SHARE)),
        }
    }
