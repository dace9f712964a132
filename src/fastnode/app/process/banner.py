"""What a local network prints on a terminal once it serves: where it is, its accounts and its contracts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fastnode.app.process.ready_line import ready_line
from fastnode.mempool.ledger import ViewLedger
from fastnode.status_page.findings import fee_juice

if TYPE_CHECKING:
    from fastnode.app.process.node import Node

__all__ = ["banner_lines"]

#: Names of the addresses in the line for programs, for people.
_URLS = {"url": "RPC", "adminUrl": "admin port, status page", "explorerUrl": "explorer", "l1ClockUrl": "L1 port"}
_CONTRACTS = {"bananaCoin": "banana coin", "bananaFPC": "banana FPC", "sponsoredFPC": "sponsored FPC"}


def banner_lines(node: Node) -> Iterator[str]:
    """Lines about a local network that serves."""
    facts = ready_line(node)
    view = node.view
    assert view is not None
    yield f"fastnode local network, ready in {node.foundation.start_wait.elapsed_s():.1f} s"
    yield ""
    for key, name in _URLS.items():
        if key in facts:
            yield f"  {name:<26}{facts[key]}"
    chain = view.chain.chain
    yield f"  {'L1 chain id':<26}{chain.l1_chain_id}"
    yield f"  {'rollup version':<26}{chain.node_info['rollupVersion']}"
    yield f"  {'block':<26}{view.chain.tip_number}"
    if "accounts" in facts:
        ledger = None if view.state is None else ViewLedger(view)
        yield ""
        for index, account in enumerate(facts["accounts"]):
            address = account["address"]
            units = 0 if ledger is None else ledger.fee_juice_balance(bytes.fromhex(address[2:]))
            balance = fee_juice(units).partition(" (")[0]
            yield f"  {f'account {index}':<16}{address}  {balance}"
        for key, address in facts["contracts"].items():
            yield f"  {_CONTRACTS[key]:<16}{address}"
        yield "  secrets of the accounts: --print-json, or getInitialTestAccountsData() of @aztec/accounts"
    yield ""
