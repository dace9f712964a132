"""The sample chain that comes with the package: served when no chain is stored and no source of one is given.

It is a recording.  No block follows its last one, so a transaction would never be included.  It is loaded into a
temporary directory: one that an operator named only ever has the chain that the operator gives it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fastnode.config.settings import Settings

__all__ = ["NOTE", "NOT_READY", "NO_BLOCKS", "has_source"]

#: The answer to a transaction.
NO_BLOCKS: Final = "this node serves a sample chain and makes no blocks"
#: The note in the status of a node.
NOTE: Final = "sample chain: a recording, which no block follows"
#: Reason that no traffic should be sent to a node.
NOT_READY: Final = (
    "sample chain: nothing is stored and no source of a chain is given. Follow a network with --upstream-url URL, load "
    "a chain with --chain-file FILE, or count the sample as ready with --accept-sample-chain"
)


def has_source(settings: Settings) -> bool:
    """Tell whether the settings name where a chain comes from, or have the node make one."""
    return settings.local_network or settings.chain_file is not None or settings.follows
