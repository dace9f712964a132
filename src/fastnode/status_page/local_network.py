"""Part of the status page for a local network: its clock, its accounts, and what can be done to it.

The buttons of the page call methods of the admin port: the same as those of the public port, behind the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from fastnode.local_network.accounts import BANANA_FPC, SPONSORED_FPC, TEST_ACCOUNTS, has_accounts
from fastnode.mempool.ledger import ViewLedger

if TYPE_CHECKING:
    from fastnode.local_network.network import LocalNetwork
    from fastnode.view import View

__all__ = ["BUTTON_METHODS", "LocalNetworkPanel"]

#: Actions that the page calls.
BUTTON_METHODS: Final = ("fastnode_mine", "fastnode_warp", "fastnode_snapshot", "fastnode_revert")
_NAMED: Final = {
    **{f"account {index}": account.address for index, account in enumerate(TEST_ACCOUNTS)},
    "banana FPC": BANANA_FPC,
    "sponsored FPC": SPONSORED_FPC,
}


class LocalNetworkPanel:
    """``funded``: other accounts that were given fee juice from the beginning."""

    def __init__(self, network: LocalNetwork, funded: Mapping[bytes, int]) -> None:
        self._network = network
        named = _NAMED if has_accounts(network.view.chain.chain.release) else {}
        self._accounts = named | {
            f"prefunded {index}": address
            for index, address in enumerate(address for address in funded if address not in named.values())
        }

    def describe(self, view: View) -> dict[str, Any]:
        """Plain numbers, and one read of the state for each account."""
        network = self._network
        ledger = None if view.state is None else ViewLedger(view)
        return {
            "automine": network.is_automining,
            "interval": network.interval_s,
            "nextTimestamp": network.clock.next_timestamp(),
            "minFee": str(network.fees.current().fee_per_l2_gas),
            "snapshots": [f"0x{snapshot.number:x}" for snapshot in network.kept.snapshots],
            "l1": network.l1 is not None,
            "accounts": [
                {
                    "name": name,
                    "address": "0x" + address.hex(),
                    "balance": None if ledger is None else str(ledger.fee_juice_balance(address)),
                }
                for name, address in self._accounts.items()
            ],
        }
