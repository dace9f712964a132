"""An event of a published contract: its code runs on a local network, and its log is told by name."""

from __future__ import annotations

import lzma
from urllib.parse import urlsplit

import orjson
from tests.conftest import DATA
from tests.public_execution.made import valid_tx_running
from tests.serving.push_client import push_client

from fastnode.artifacts.store import ArtifactStore
from fastnode.protocol.fields import field_from_int, hex_text
from fastnode.protocol.header import BlockHeader
from fastnode.testing import local_network

#: Orderbook of the package noir-contracts.js, release 4.1.2; its bytecode is in tests/data.
CLASS_ID = bytes.fromhex("094a4e4c72965a91a53e04f46de77041d38484d8676cc6ae986e38cc3066f63a")
PAYER = field_from_int(0xFEED)
#: Of the contract's initialization, siloed: it is looked for before anything else.
INITIALIZED = bytes.fromhex("0ae9e19766cf2819a1b1bf2db95942dbaa6657e16bb8fbe1c10da0df0c9a590b")
ORDER = field_from_int(0xABCDEF << 200)


def test_an_order_is_told_by_the_name_of_its_event() -> None:
    artifact = ArtifactStore(None).find(CLASS_ID)
    assert artifact is not None
    selector = next(selector for selector, each in artifact.functions.items() if each.name == "_create_order")
    values = field_from_int(int.from_bytes(selector, "big")), ORDER, *map(field_from_int, (5, 7, 1))
    with local_network("--seed=test", "--keep-txs=10", in_process=True) as network:
        network.call("anvil_setBalance", hex_text(PAYER), hex(10**24))
        header = BlockHeader.from_json(network.call("node_getBlockHeader", "latest"))
        program = lzma.decompress((DATA / "contracts" / "orderbook.avm.xz").read_bytes())
        version = network.call("node_getVersion")
        tx = valid_tx_running(
            program, header, version, PAYER, calldata=b"".join(values), of=artifact, nullifier=INITIALIZED
        )
        with push_client(urlsplit(network.url).port or 0) as client:
            client.subscribe("publicLogs", names=True)
            network.call("node_sendTx", tx.to_json())
            assert network.call("node_getTxReceipt", hex_text(tx.hash))["executionResult"] == "success"
            assert network.call("node_getContractClass", hex_text(CLASS_ID)) is not None
            named = {
                "contractName": "Orderbook",
                "eventName": "OrderCreated",
                "arguments": [{"name": "order_id", "value": hex_text(ORDER)}],
            }
            (pushed,) = client.wait_for("logs")["data"]
            (found,) = network.call("fastnode_getPublicEvents", {"txHash": hex_text(tx.hash)})["logs"]
            (plain,) = network.call("node_getPublicLogs", {"txHash": hex_text(tx.hash)})["logs"]
        assert pushed == found == plain | named
        (call,) = network.call("fastnode_traceTransaction", hex_text(tx.hash))["calls"]
        (event,) = [entry for entry in call["entries"] if entry["event"] == "publicLog"]
        assert call["functionName"] == "_create_order"
        assert orjson.dumps(event["arguments"]) == orjson.dumps(named["arguments"])
