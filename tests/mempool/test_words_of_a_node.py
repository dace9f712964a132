"""A whole node and the transactions of clients: what it reads, and its words about what it refuses."""

from __future__ import annotations

import base64
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.mempool.made import hash_of, made_txs
from tests.taking_node import start_taking

from fastnode.protocol.tx_layout import USUAL

#: Fees that nobody's fee juice covers.
RICH = 10**30


def priced(tx: dict[str, Any], fee_per_l2_gas: int) -> dict[str, Any]:
    data = bytearray(base64.b64decode(tx["data"]))
    struct.pack_into(">16s16s", data, USUAL.max_fees, bytes(16), fee_per_l2_gas.to_bytes(16, "big"))
    return tx | {"data": base64.b64encode(data).decode("ascii")}


def forms(text: str, dice: random.Random) -> list[str]:
    """Base64 as published nodes read it too: without padding, in the alphabet of URLs, with blanks and line ends."""
    at = sorted(dice.sample(range(len(text)), 3))
    broken = "\n".join((text[: at[0]], text[at[0] : at[1]], text[at[1] : at[2]], text[at[2] :]))
    return [text.rstrip("="), text.replace("+", "-").replace("/", "_"), broken.replace("\n", " \n", 1)]


def test_transactions_are_read_as_others_read_them_and_refused_with_amounts(
    start_node: Callable[..., Any], sample_chain: Path
) -> None:
    node = start_taking(start_node, "--chain-file", sample_chain).wait_until_serving()
    node.wait_for_line("chain file loaded")
    dice = random.Random(38)
    read = list(made_txs(4))
    for name in ("data", "chonkProof"):
        for text in forms(read[0][name], dice):
            assert node.call("node_isValidTx", read[0] | {name: text})["result"] == {"result": "valid"}
    refused = node.call("node_isValidTx", read[0] | {"data": read[0]["data"][:-8] + "????" + read[0]["data"][-4:]})
    assert "data: not base64" in refused["error"]["message"]

    for tx, data in zip(read[1:3], (forms(read[1]["data"], dice)[0], forms(read[2]["data"], dice)[1]), strict=True):
        assert "error" not in node.call("node_sendTx", tx | {"data": data})
        assert node.call("node_getTxReceipt", hash_of(tx))["result"]["status"] == "pending"

    # Alone it is more than its payer has: one case for a wallet, whatever else the payer has sent.
    poor = node.call("node_sendTx", priced(read[3], RICH))["error"]
    assert poor["data"]["code"] == "INSUFFICIENT_FEE_PAYER_BALANCE", poor
    assert "nsufficient" in poor["message"]
    amounts = {name: int(poor["data"][name]) for name in ("currentBalance", "availableBalance", "feeLimit")}
    assert amounts["availableBalance"] <= amounts["currentBalance"] < amounts["feeLimit"]
    assert node.stop() == 0
