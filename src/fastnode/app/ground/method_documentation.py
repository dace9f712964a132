"""Every method of both ports, and what docs/methods.md says of its limits and needs."""

from __future__ import annotations

from typing import Final

from fastnode.api.discovery import discovery
from fastnode.app.ground.method_tables import Services, admin_methods, public_methods
from fastnode.config.configuration import NodeConfiguration
from fastnode.config.settings import Settings
from fastnode.jsonrpc.methods import Method
from fastnode.log_index.known_tags import KnownTags

__all__ = ["STATES", "STATES_OF_FIVE", "all_methods", "state_of"]

#: Limits and needs of methods; those that are not named are complete.
STATES: Final = {
    "node_getEncodedEnr": "that of the followed node, unless this one is on the network itself",
    "node_sendTx": "with real proofs: needs a [verifier](proofs.md)",
    "node_getValidatorsStats": "with `--sentinel-enabled`, or from the followed node",
    "node_getValidatorStats": "with `--sentinel-enabled`, or from the followed node",
    "nodeAdmin_setConfig": "[keys](settings.md#keys-of-nodeadmin_setconfig) that no part of the node reads are refused",
    "nodeAdmin_getSlashOffenses": "with `--l1-rpc-urls`, `--sentinel-enabled` or `--upstream-admin-url`",
    "nodeAdmin_getSlashPayloads": "with `--l1-rpc-urls` or `--sentinel-enabled`; refused where votes are tallied",
}

#: The same in the methods of 5.x and 6.x, where it differs.
STATES_OF_FIVE: Final = {
    "node_sendTx": "on a local network, or with `--untried-upstreams` or `--untried-peers`; else refused on a chain of "
    "5.x: `NO_TRANSACTIONS`",
    "node_getL1ToL2MessageIndex": "before a block has inserted it: with `--l1-rpc-urls`",
    "node_getValidatorStatsBatch": "with `--sentinel-enabled`, or from the followed node",
    "node_getPeers": "those that are connected; none with workers",
    "node_getCheckpointAttestationsForSlot": "with `--p2p-enabled`, `--untried-peers` and `--l1-rpc-urls`; else "
    "refused: `NOT_KEPT`",
    "node_getProposalsForSlot": "as `aztec_getCheckpointAttestationsForSlot`",
    "nodeAdmin_pauseSequencer": "where the node builds blocks",
    "nodeAdmin_resumeSequencer": "where the node builds blocks",
}

#: The smallest filter that there is: a table of methods has no tags to know.
_FILTER_BYTES: Final = 1 << 10


def all_methods() -> list[Method]:
    """Every method of both ports, in the order of the tables, as a node with default settings serves it."""
    settings = Settings()
    public = public_methods(settings, Services(known_tags=KnownTags(_FILTER_BYTES), allow_list=lambda: ()))
    methods = [*public, *admin_methods(NodeConfiguration(settings))]
    return [*methods, discovery(methods)]


def state_of(method: Method) -> str:
    """Limits and needs of a method; empty for one that is complete."""
    return STATES.get(method.name, f"deprecated: use `{method.replaced_by}`" if method.replaced_by else "")
