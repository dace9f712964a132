"""Headers about the network, and about this program, in every response.

A client compares each header it knows with what it was built for, as text, and refuses to talk to a
node of another network or release.  A header that is not sent is not compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastnode import __version__

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainInfo

__all__ = ["OWN_VERSION", "version_headers"]

#: The release of this program, which the headers about the network do not tell.
OWN_VERSION: Final = ("x-fastnode-version", __version__)

_PREFIX: Final = "x-aztec-"


def version_headers(
    chain: ChainInfo,
    version: str,
    *,
    vk_tree_root: bytes | None = None,
    protocol_contracts_hash: bytes | None = None,
) -> list[tuple[str, str]]:
    """The headers of a chain, for a node that goes by ``version``.

    What is not known is left out; the two hashes are 32 bytes.
    """
    rollup_address = chain.node_info.get("l1ContractAddresses", {}).get("rollupAddress")
    values = {
        "l1ChainId": str(chain.l1_chain_id),
        "l1RollupAddress": rollup_address,
        "rollupVersion": str(chain.rollup_version),
        "l2ProtocolContractsHash": _hex(protocol_contracts_hash),
        "l2CircuitsVkTreeRoot": _hex(vk_tree_root),
        "packageVersion": version or None,
    }
    return [(_PREFIX + key, str(value)) for key, value in values.items() if value is not None]


def _hex(value: bytes | None) -> str | None:
    return None if value is None else "0x" + value.hex()
