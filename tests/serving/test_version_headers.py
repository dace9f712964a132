"""The headers that name the network."""

from __future__ import annotations

from dataclasses import replace

from fastnode.serving.version_headers import version_headers
from fastnode.view import View


def test_the_headers_of_a_chain_have_the_form_that_clients_compare(view: View) -> None:
    headers = version_headers(
        view.chain.chain, "4.1.2", vk_tree_root=b"\x01" * 32, protocol_contracts_hash=b"\x0a" * 32
    )
    assert dict(headers) == {
        "x-aztec-l1ChainId": "31337",
        "x-aztec-l1RollupAddress": "0x322813fd9a801c5507c9de605d63cea4f2ce6c44",
        "x-aztec-rollupVersion": "3658137161",
        "x-aztec-l2ProtocolContractsHash": "0x" + "0a" * 32,
        "x-aztec-l2CircuitsVkTreeRoot": "0x" + "01" * 32,
        "x-aztec-packageVersion": "4.1.2",
    }


def test_what_is_not_known_is_not_said(view: View) -> None:
    chain = replace(view.chain.chain, node_info={"l1ChainId": 1, "rollupVersion": 2})
    assert dict(version_headers(chain, "")) == {"x-aztec-l1ChainId": "1", "x-aztec-rollupVersion": "2"}
