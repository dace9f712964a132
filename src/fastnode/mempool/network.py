"""What a transaction must say about the network it is for."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final, Self

import orjson

from fastnode.protocol.contracts import ContractInstance, protocol_contracts_hash
from fastnode.protocol.fields import FIELD_BYTES

__all__ = ["NetworkIdentity"]

logger = logging.getLogger("fastnode.mempool")

#: Root of the tree of verification keys of the circuits, by node version.
_VK_TREE_ROOTS: Final = {
    "4.1.2": bytes.fromhex("1dd2644a17d1ddd8831287a78c5a1033b7ae35cdf2a3db833608856c062fc2ba"),
}


@dataclass(frozen=True, slots=True)
class NetworkIdentity:
    """The values that stand in every transaction of a network.

    ``vk_tree_root`` or ``protocol_contracts_hash`` None: not known; validation refuses every transaction
    and says so.
    """

    l1_chain_id: int
    rollup_version: int
    vk_tree_root: bytes | None
    protocol_contracts_hash: bytes | None

    @classmethod
    def of_view(cls, chain_view: Any, *, vk_tree_root: bytes | None = None) -> Self:
        """From a :class:`~fastnode.archiver.queries.ChainView`; an explicit ``vk_tree_root`` goes first."""
        chain = chain_view.chain
        root = vk_tree_root or _VK_TREE_ROOTS.get(chain.node_version)
        if root is None:
            logger.warning(
                "the verification keys tree root of node version %r is unknown: transactions are refused until "
                "--vk-tree-root names it",
                chain.node_version,
            )
        return cls(chain.l1_chain_id, chain.rollup_version, root, _contracts_hash(chain_view))


def _contracts_hash(chain_view: Any) -> bytes | None:
    """Hash of the derived addresses of the contracts at the addresses 1, 2, 3, ..; None if there are none."""
    derived: list[bytes] = []
    while (instance := _instance_at(chain_view, len(derived) + 1)) is not None:
        derived.append(instance.computed_address())
    return protocol_contracts_hash(derived) if derived else None


def _instance_at(chain_view: Any, number: int) -> ContractInstance | None:
    stored = chain_view.contract_instance_json(number.to_bytes(FIELD_BYTES, "big"))
    return None if stored is None else ContractInstance.from_json(orjson.loads(stored))
