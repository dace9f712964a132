"""A local network behind a browser: pages of other sites read it and send transactions, and change nothing."""

from __future__ import annotations

import http.client
import json
import random
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.local_network.local_chain import for_chain
from tests.mempool.made import hash_of, made_txs

from fastnode.testing import RunningNetwork, local_network

ALLOWED_ORIGIN = "http://localhost:3000"
#: Methods that only read, or do what those of all nodes do too.
READS = {
    *("fastnode_getAutomine", "anvil_getAutomine", "hardhat_getAutomine", "fastnode_autoMineStatus"),
    *("fastnode_getIntervalMining", "anvil_getIntervalMining", "txpool_status", "txpool_content"),
    *("fastnode_nodeInfo", "fastnode_metadata", "anvil_nodeInfo", "anvil_metadata", "hardhat_metadata"),
    *("fastnode_getTxFailure", "fastnode_getTxCalls", "fastnode_getL2ToL1Witness"),
    *(
        "aztecDebug_registerContractFunctionSignatures",
        "fastnode_getSyncStatus",
        "fastnode_getGenesis",
        "fastnode_getL1ToL2Messages",
    ),
}
PREFIXES = ("fastnode_", "anvil_", "evm_", "hardhat_", "aztecDebug_", "txpool_")


@pytest.fixture(scope="module", params=[False, True], ids=["free", "limited"])
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNetwork]:
    """Once with limits that these tests do not reach."""
    flags = ["--seed=pages", "--l1-clock-port=0", f"--local-network-origins={ALLOWED_ORIGIN}"]
    if request.param:
        rules = tmp_path_factory.mktemp("limits") / "limits.toml"
        rules.write_text("[address]\nrate = 100000\nburst = 100000\n")
        flags.append(f"--rpc-limits={rules}")
    with local_network(*flags, in_process=True) as running:
        yield running


def ask(url: str, body: Any, headers: dict[str, str]) -> Any:
    """Answer that a page gets for a POST; ``host`` among the headers stands for a name that leads here."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 0, timeout=30)
    text = json.dumps(body)
    try:
        connection.request("POST", "/", text, {"Content-Type": "application/json", "Host": parts.netloc, **headers})
        answer = connection.getresponse()
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        content = answer.read()
        return json.loads(content) if content else None
    finally:
        connection.close()


def call(method: str, *parameters: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}


def changing_methods(url: str) -> list[str]:
    """All that a local network has beside other nodes, but for what only reads."""
    document = ask(url, call("rpc.discover"), {})["result"]
    names = [method["name"] for method in document["methods"] if method["name"].startswith(PREFIXES)]
    return [name for name in names if name not in READS and not name.startswith(("fastnode_get", "fastnode_trace"))]


def is_refused(answer: Any) -> bool:
    error = answer.get("error", {})
    return isinstance(error.get("data"), dict) and error["data"].get("code") == "FOREIGN_PAGE"


def foreign_pages(dice: random.Random, url: str) -> dict[str, str]:
    """The headers of a request that a browser sends for a page of another site, in one of many ways."""
    parts = urlsplit(url)
    origin = dice.choice(
        [
            *("https://evil.example", "null", "http://localhost", "http://localhost:1", "file://", ""),
            *(f"http://evil.example:{parts.port}", f"http://127.0.0.1.evil.example:{parts.port}"),
            *("chrome-extension://abc", f"{ALLOWED_ORIGIN}.evil.example", f"http://{parts.netloc}, {ALLOWED_ORIGIN}"),
        ]
    )
    headers = {
        dice.choice(["Origin", "origin", "ORIGIN"]): origin,
        "Content-Type": dice.choice(["text/plain", "application/json", "application/x-www-form-urlencoded", "x"]),
    }
    if dice.random() < 0.4:  # a name of the attacker's leads here, and its page is of that name
        name = dice.choice(["evil.example", f"evil.example:{parts.port}", "localhost.evil.example", "node"])
        return headers | {"Host": name, "Origin": f"http://{name}"} if "Origin" in headers else {"Origin": origin}
    if dice.random() < 0.3:
        headers["Accept-Encoding"] = "gzip"
    return headers


def state_of(network: RunningNetwork) -> tuple[Any, ...]:
    info = network.call("fastnode_nodeInfo")
    info.pop("timestamp", None)
    kept = (network.block_number, network.call("node_getL2Tips"), network.call("fastnode_getAutomine"))
    return (*kept, network.call("fastnode_getIntervalMining"), network.call("node_getPendingTxCount"))


@pytest.mark.parametrize("seed", range(3))
def test_no_page_of_another_site_changes_anything(network: RunningNetwork, seed: int) -> None:
    dice = random.Random(seed)
    names = changing_methods(network.url)
    assert {"fastnode_mine", "anvil_reset", "evm_revert", "fastnode_dumpState", "fastnode_loadState"} <= set(names)
    before = state_of(network)
    for name in names:
        one = call(name, *dice.choice([(), (1,), ("0x1",), ({"fork": {"source": "/etc/passwd"}},), ("0x00",) * 3]))
        headers = foreign_pages(dice, network.url)
        match dice.randrange(3):
            case 0:
                assert is_refused(ask(network.url, one, headers)), (name, headers)
            case 1:
                answers = ask(network.url, [call("node_getBlockNumber"), one], headers)
                assert (answers[0]["result"], is_refused(answers[1])) == (before[0], True), (name, headers)
            case _:
                one.pop("id")
                assert ask(network.url, one, headers) is None
    assert state_of(network) == before


@pytest.mark.parametrize("seed", range(2))
def test_the_clock_of_l1_is_not_moved_by_pages_of_other_sites_either(network: RunningNetwork, seed: int) -> None:
    dice, url = random.Random(seed), network.l1_clock_url
    assert url is not None
    before = state_of(network)
    names = [name for name in changing_methods(network.url) if name.startswith(("evm_", "anvil_", "hardhat_"))]
    for name in (*names, "anvil_setStorageAt", "hardhat_setStorageAt"):
        answer = ask(url, call(name, 1), foreign_pages(dice, url))
        # A few of the network's own stand for something else on L1, and do nothing.
        assert is_refused(answer) or name.endswith(("setBalance", "_setCode", "_setNonce")), name
    assert ask(url, call("eth_chainId"), foreign_pages(dice, url))["result"].startswith("0x")
    assert state_of(network) == before


def test_wallets_and_explorers_in_a_browser_read_and_send_transactions(network: RunningNetwork) -> None:
    headers = {"Origin": "https://wallet.example"}

    def of_the_page(method: str, *parameters: Any) -> Any:
        return ask(network.url, call(method, *parameters), headers)["result"]

    header, version = of_the_page("node_getBlockHeader", "latest"), of_the_page("node_getVersion")
    tx = for_chain(next(iter(made_txs(1))), header, version)
    ask(network.url, call("node_sendTx", tx), headers)
    assert of_the_page("node_getTxReceipt", hash_of(tx))["status"] == "proven"
    assert of_the_page("fastnode_nodeInfo")["currentBlockNumber"] == network.block_number


def test_the_own_page_a_named_page_and_programs_change_it(network: RunningNetwork) -> None:
    netloc = urlsplit(network.url).netloc
    port = urlsplit(network.url).port
    for headers in (
        {},
        {"Host": "fastnode:8080"},
        {"Origin": f"http://{netloc}"},
        {"Origin": f"http://localhost:{port}", "Host": f"localhost:{port}"},
        {"Origin": ALLOWED_ORIGIN},
        {"Origin": ALLOWED_ORIGIN.upper()},
    ):
        before = network.block_number
        assert ask(network.url, call("fastnode_mine"), headers)["result"] == before + 1, headers


def test_a_page_that_may_change_it_is_told_so_before_it_asks(network: RunningNetwork) -> None:
    parts = urlsplit(network.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 0, timeout=30)
    wanted = {"Origin": "https://wallet.example", "Access-Control-Request-Method": "POST"}
    connection.request("OPTIONS", "/", headers=wanted | {"Access-Control-Request-Headers": "content-type"})
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (204, "*")
    connection.close()
