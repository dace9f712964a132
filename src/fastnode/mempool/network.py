"""Conditions on a transaction about the network it is for."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

import orjson

from fastnode.kernels import encode
from fastnode.protocol.contracts import ContractInstance, protocol_contracts_hash
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.protocol.releases import FOUR, Release
from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainInfo

__all__ = ["NetworkIdentity", "NetworkValues"]

logger = logging.getLogger("fastnode.mempool")

#: SHA-256 of the protocol contracts of release 4.x as they are usually stored, one behind the other: their hash takes a
#: point multiplication for each of them, and is in the record of the release.
_USUAL_CONTRACTS: Final = bytes.fromhex("618cabebdca8a275a1cd2611b76c73a25da023abb8ed65e9236e72c4f72cdf59")

_VK_TREE_ROOT_HEADER: Final = "x-aztec-l2circuitsvktreeroot"
_CONTRACTS_HASH_HEADER: Final = "x-aztec-l2protocolcontractshash"


@dataclass(frozen=True, slots=True)
class NetworkValues:
    """Facts from the rollup contract or another node about its network; None where it says nothing."""

    vk_tree_root: bytes | None = None
    protocol_contracts_hash: bytes | None = None
    node_version: str | None = None

    @classmethod
    def of_headers(cls, headers: Mapping[str, str]) -> Self:
        """From another node's version headers, their names in lower case."""
        return cls(_field_of(headers.get(_VK_TREE_ROOT_HEADER)), _field_of(headers.get(_CONTRACTS_HASH_HEADER)))


def _field_of(text: str | None) -> bytes | None:
    if text is None or not text.startswith("0x"):
        return None
    try:
        return encode.field_from_text(text)
    except ValueError:
        return None


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
    #: The version that the node goes by.
    node_version: str = ""

    @classmethod
    def of_view(
        cls, chain_view: Any, *, vk_tree_root: bytes | None = None, learned: NetworkValues | None = None
    ) -> Self:
        """From a :class:`~fastnode.archiver.queries.ChainView`.

        An explicit ``vk_tree_root`` goes first, then what was ``learned`` from the network, then what the
        record of the chain's release says, if its version belongs to that.
        """
        chain = chain_view.chain
        learned = learned or NetworkValues()
        root = vk_tree_root or learned.vk_tree_root or _root_of(chain)
        if root is None:
            logger.warning(
                "the verification keys tree root of node version %r is unknown: no transaction can be judged here "
                "until an upstream, L1 (--l1-rpc-urls) or --vk-tree-root names it",
                chain.node_version,
            )
        contracts = learned.protocol_contracts_hash or _contracts_hash(chain_view)
        return cls(chain.l1_chain_id, chain.rollup_version, root, contracts, chain.node_version)


def _root_of(chain: ChainInfo) -> bytes | None:
    release = chain.release
    return release.vk_tree_root if release.has_version(chain.node_version) else None


def _contracts_hash(chain_view: Any) -> bytes | None:
    """Hash of the derived addresses of the contracts at the addresses 1, 2, 3, ..; None if there are none.

    Where the record has not the release's own contracts, the hash is the record's.
    """
    release: Release = chain_view.chain.release
    if release.contracts_file != release.local_contracts_file:
        return release.contracts_hash
    stored = list(_stored_instances(chain_view))
    if hashlib.sha256(b"".join(stored)).digest() == _USUAL_CONTRACTS:
        return FOUR.contracts_hash
    return _computed_hash(stored, release)


def _computed_hash(stored: list[bytes], release: Release) -> bytes | None:
    derived = [ContractInstance.from_json(orjson.loads(text)).computed_address(release) for text in stored]
    return protocol_contracts_hash(derived) if derived else None


def _stored_instances(chain_view: Any) -> Iterator[bytes]:
    number = 1
    while (text := chain_view.contract_instance_json(number.to_bytes(FIELD_BYTES, "big"))) is not None:
        yield text
        number += 1
