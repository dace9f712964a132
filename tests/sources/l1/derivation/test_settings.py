"""Each setting of L1 and of blobs, given by flag, by environment and in the file: what it changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.conftest import clean_environment
from tests.sources.conftest import FollowingNode
from tests.sources.l1.derivation.test_blob_places import ScriptedArchive
from tests.sources.l1.publishing import PublishingL1
from tests.sources.l1.scripted_l1 import SLOT_SECONDS, ScriptedL1, scripted_l1
from tests.sources.made_chain import MadeChain

from fastnode.cli.start import start as start_command
from fastnode.config.idle_settings import KEPT
from fastnode.config.settings import Settings, rows
from fastnode.errors import SettingError, StartError
from fastnode.protocol.releases import FOUR
from fastnode.sources.blobs.file_store import FileStore, folder_of
from fastnode.sources.l1.proposals import CHECKPOINT_PROPOSED

WAYS = ("flag", "environment", "file")
ROWS = {row.name: row for row in rows(Settings)}
#: Nobody listens there.
DEAD = "http://127.0.0.1:1"

#: ``start(**settings)``: a node with them and the usual ones; None takes a usual one away.
Start = Callable[..., AbstractContextManager[FollowingNode]]


def effective(way: str, values: dict[str, str], directory: Path, patch: pytest.MonkeyPatch) -> Settings:
    """What `fastnode start` gives to the node, when ``values`` are all given in one way."""
    flags, environment = [], {}
    if way == "flag":
        flags = [part for name, value in values.items() for part in _flag(name, value)]
    elif way == "environment":
        environment = {ROWS[name].environment[0]: value for name, value in values.items()}
    else:
        file = directory / "node.toml"
        file.write_text("".join(_line(name, value) for name, value in values.items()))
        flags = ["--config", str(file)]
    given: list[Settings] = []
    patch.setattr("fastnode.cli.start._import_node", lambda: given.append)
    patch.setattr("fastnode.log.configure", lambda **_: None)
    with pytest.MonkeyPatch.context() as of_process:
        for name, value in clean_environment(**environment).items():
            of_process.setenv(name, value)
        result = CliRunner().invoke(start_command, ["--node", *flags], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return given[0]


def _flag(name: str, value: str) -> list[str]:
    row = ROWS[name]
    if isinstance(row.default, bool):
        return [row.flag if value == "true" else f"--no-{name}"]
    if isinstance(row.default, tuple) or "," in value:  # may be given several times
        return [part for each in value.split(",") for part in (row.flag, each)]
    return [row.flag, value]


def _line(name: str, value: str) -> str:
    if "," in value:
        return f"{name} = {value.split(',')!r}\n"
    is_plain = value in ("true", "false") or value.replace(".", "", 1).isdigit()
    return f"{name} = {value}\n" if is_plain else f'{name} = "{value}"\n'


@pytest.fixture(params=WAYS)
def start(request: pytest.FixtureRequest, tmp_path: Path, l1: PublishingL1, monkeypatch: pytest.MonkeyPatch) -> Start:
    usual = {
        "l1-rpc-urls": l1.url,
        "l1-consensus-host-urls": l1.beacon.url,
        "registry-address": l1.addresses.registry,
        "genesis": str(l1.genesis),
        "l1-polling-interval-ms": "5",
        "archiver-polling-interval-ms": "5",
        "max-allowed-eth-client-drift-seconds": "0",
    }
    count = iter(range(9))

    @contextmanager
    def started(**settings: str | None) -> Iterator[FollowingNode]:
        values = usual | {name.replace("_", "-"): value for name, value in settings.items()}
        given = {name: value for name, value in values.items() if value is not None}
        found = effective(request.param, given, tmp_path, monkeypatch)
        with ExitStack() as stack:
            node = FollowingNode(tmp_path / f"node-{next(count)}", stack, found)
            yield node
        assert not node.failures, node.failures

    return started


def wait_for(node: FollowingNode, chain: MadeChain) -> None:
    node.wait(lambda: node.tips.checkpointed == chain.tips().checkpointed and node.follower.trouble is None)


def assert_refused(start: Start, kind: type[Exception], reason: str, **settings: str | None) -> None:
    with pytest.raises(kind, match=reason), start(**settings):
        pass


def started_in_time(stack: ExitStack, start: Start, **settings: str) -> FollowingNode:
    """A start asks once, and a machine that is held up for longer than others may take is tried again."""
    for _ in range(8):
        with suppress(StartError):
            return stack.enter_context(start(**settings))
    raise AssertionError("it was never in time")


# ---- L1 ---------------------------------------------------------------------------------------


def test_l1_rpc_urls(start: Start, chain: MadeChain, l1: PublishingL1) -> None:
    """The second one is asked where the first one does not answer."""
    with start(l1_rpc_urls=f"{DEAD},{l1.url}") as node:
        wait_for(node, chain)
        assert node.origins.l1 is not None
        dead, good = node.origins.l1.describe()["nodes"]
        assert "Connection refused" in dead["reason"]
        assert good["reason"] is None


def test_registry_address(start: Start) -> None:
    wrong = "0x" + "12" * 20
    assert_refused(start, StartError, f"there is no code at .* {wrong}", registry_address=wrong)
    assert_refused(start, StartError, "--registry-address", registry_address=None)


def test_rollup_version(start: Start, chain: MadeChain, l1: PublishingL1) -> None:
    assert_refused(start, StartError, "has no rollup of version 7 on L1", rollup_version="7")
    with start(rollup_version=str(l1.version)) as node:
        wait_for(node, chain)


def test_standby(start: Start, chain: MadeChain, l1: PublishingL1, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry is polled until its rollup is known."""
    monkeypatch.setattr("fastnode.app.stages.l1_origin.STANDBY_INTERVAL_S", 0.01)
    l1.circuits = (b"\x0e" * 32, b"\x0f" * 32)
    assert_refused(start, StartError, "no record here .* --standby waits until a known rollup is the canonical one")

    def upgrade(method: str, _parameters: Any, result: Any) -> Any:
        if method == "eth_getStorageAt" and l1.requests.count(method) > 8:
            l1.circuits = FOUR.roots
        return result

    l1.tamper = upgrade
    with start(standby="true") as node:
        wait_for(node, chain)


def test_l1_chain_id(start: Start, l1: PublishingL1) -> None:
    wrong = str(l1.chain_id + 1)
    reason = f"it is a node of chain {l1.chain_id}, the rollup is on {wrong}"
    assert_refused(start, StartError, reason, l1_chain_id=wrong)


def test_max_allowed_eth_client_drift_seconds(start: Start, chain: MadeChain, l1: PublishingL1) -> None:
    age = int(time.time()) - l1.head.timestamp
    with start(max_allowed_eth_client_drift_seconds=str(max(1, age + 1_000))) as node:
        wait_for(node, chain)
    if age > 1:
        with start(max_allowed_eth_client_drift_seconds="1") as node:
            node.wait(lambda: "its newest block" in (node.follower.trouble or ""), "the age is said")
            assert node.tips.checkpointed.checkpoint.number == 0


def test_ethereum_slot_duration(start: Start, chain: MadeChain) -> None:
    with start(ethereum_slot_duration="7") as node:
        wait_for(node, chain)
        assert node.data.store.chain.l1_constants["ethereumSlotDuration"] == 7


def test_l1_polling_interval_ms(start: Start, chain: MadeChain) -> None:
    with start(l1_polling_interval_ms="40") as node:
        wait_for(node, chain)
        assert node.origins.l1 is not None
        assert node.origins.l1.look_once() == pytest.approx(0.04)


def test_l1_timeout_s(start: Start, chain: MadeChain, l1: PublishingL1) -> None:
    with ExitStack() as stack:
        node = started_in_time(stack, start, l1_timeout_s="0.3")
        wait_for(node, chain)
        l1.disturb = lambda _handler, _body: bool(time.sleep(1.0))
        node.wait(lambda: "within 0.3 s" in str(node.origins.l1 and node.origins.l1.reasons()))
        l1.disturb = lambda _handler, _body: False


def test_l1_calls_per_second(start: Start, chain: MadeChain, l1: PublishingL1) -> None:
    with start(l1_calls_per_second="40") as node:
        wait_for(node, chain)
        assert node.origins.l1 is not None
        [provider] = node.origins.l1.describe()["nodes"]
        assert (provider["callsPerSecond"], provider["refusedCalls"]) == (40, 0)


def test_l1_batch_calls(start: Start, chain: MadeChain, l1: PublishingL1) -> None:
    l1.limits.batch = 3
    with start(l1_batch_calls="3") as node:
        wait_for(node, chain)
        assert node.origins.l1 is not None
        [provider] = node.origins.l1.describe()["nodes"]
        assert (provider["batchCalls"], provider["refusedCalls"]) == (3, 0)


def test_archiver_batch_size(start: Start, chain: MadeChain, l1: PublishingL1) -> None:
    """So many slots of the rollup, counted in blocks of L1."""
    l1.mine(200)
    asked: list[int] = []

    def note(method: str, parameters: Any, result: Any) -> Any:
        if method == "eth_getLogs" and parameters[0]["topics"] == [CHECKPOINT_PROPOSED]:
            asked.append(int(parameters[0]["toBlock"], 16) - int(parameters[0]["fromBlock"], 16) + 1)
        return result

    l1.tamper = note
    with start(archiver_batch_size="3") as node:
        wait_for(node, chain)
    slot = int(chain.chain_record["l1Constants"]["slotDuration"])
    assert 3 * slot // SLOT_SECONDS in asked[:2]
    assert max(asked) <= 200 + l1.head.number


# ---- traces -----------------------------------------------------------------------------------


@pytest.fixture
def tracer(chain: MadeChain) -> Iterator[ScriptedL1]:
    """Another node of L1, which traces."""
    with scripted_l1(chain.chain_record["nodeInfo"], chain.chain_record["l1Constants"]) as node:
        node._methods["debug_traceTransaction"] = lambda *_: None
        yield node


def test_ethereum_debug_hosts(start: Start, chain: MadeChain, l1: PublishingL1, tracer: ScriptedL1) -> None:
    with start(ethereum_debug_hosts=tracer.url, ethereum_allow_no_debug_hosts="false") as node:
        wait_for(node, chain)
    assert "debug_traceTransaction" in tracer.requests
    assert "debug_traceTransaction" not in l1.requests


def test_ethereum_allow_no_debug_hosts(start: Start) -> None:
    assert_refused(start, StartError, "no L1 node traces transactions", ethereum_allow_no_debug_hosts="false")


# ---- blobs ------------------------------------------------------------------------------------


def test_l1_consensus_host_urls(start: Start, chain: MadeChain, l1: PublishingL1) -> None:
    with start(l1_consensus_host_urls=f"{DEAD},{l1.beacon.url}") as node:
        wait_for(node, chain)
        sources = node.follower.describe()["derivation"]["blobSources"]
        assert [(item["name"], item["ok"]) for item in sources] == [
            ("consensus client 1", False),
            ("consensus client 2", True),
        ]


def test_l1_consensus_host_api_keys(start: Start, chain: MadeChain, l1: PublishingL1) -> None:
    with start(l1_consensus_host_api_keys="secret") as node:
        wait_for(node, chain)
    assert l1.beacon.requests
    assert all("key=secret" in path for path in l1.beacon.requests)
    assert_refused(start, SettingError, "2 values for 1", l1_consensus_host_api_keys="a,b")


def test_l1_consensus_host_api_key_headers(start: Start, chain: MadeChain, l1: PublishingL1) -> None:
    with start(l1_consensus_host_api_keys="secret", l1_consensus_host_api_key_headers="X-Key") as node:
        wait_for(node, chain)
    assert all("key=" not in path for path in l1.beacon.requests)
    assert all(found.get("X-Key") == "secret" for found in l1.beacon.headers)


def folder(l1: PublishingL1) -> str:
    return folder_of(l1.chain_id, l1.version, l1.rollup)


def test_blob_file_store_urls(start: Start, chain: MadeChain, l1: PublishingL1, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/store"
    writer = FileStore(url, folder(l1), "upload", is_written=True)
    writer.sign_as_healthy()
    for unit in chain.units:
        sheet = l1.sheet(unit.published or {})
        for blob, commitment, item in zip(sheet.blobs, sheet.commitments, sheet.hashes, strict=True):
            writer.upload(item, blob, commitment)
    (tmp_path / "empty").mkdir()
    with start(blob_file_store_urls=f"file://{tmp_path}/empty,{url}", l1_consensus_host_urls=None) as node:
        wait_for(node, chain)
    assert l1.beacon.requests == []


def test_blob_file_store_upload_url(start: Start, chain: MadeChain, l1: PublishingL1, tmp_path: Path) -> None:
    with start(blob_file_store_upload_url=f"file://{tmp_path}/store") as node:
        wait_for(node, chain)
        written = tmp_path / "store" / folder(l1) / "blobs"
        expected = {f"0x{item.hex()}.data" for unit in chain.units for item in l1.sheet(unit.published or {}).hashes}
        node.wait(lambda: written.exists() and {path.name for path in written.iterdir()} >= expected)


def test_blob_archive_api_url(start: Start, chain: MadeChain, l1: PublishingL1) -> None:
    archive = ScriptedArchive(l1)
    with ExitStack() as stack:
        stack.callback(archive.close)
        with start(blob_archive_api_url=archive.url, l1_consensus_host_urls=None) as node:
            wait_for(node, chain)
    assert l1.beacon.requests == []


def test_blob_allow_empty_sources(start: Start, l1: PublishingL1) -> None:
    l1.beacon.status = 503
    assert_refused(start, StartError, "no place of blobs can be reached")
    for places in ({}, {"l1_consensus_host_urls": None}):
        with start(blob_allow_empty_sources="true", **places) as node:
            node.wait(lambda node=node: "blobs of checkpoint 1" in (node.follower.trouble or ""))  # type: ignore[misc]


def test_every_setting_of_l1_has_its_test_here() -> None:
    """Named after it."""
    here = {name.removeprefix("test_") for name in globals()}
    of_l1 = {row.attribute for row in ROWS.values() if row.section in ("L1", "Blobs") and row.name not in KEPT}
    # test_genesis.py learns a chain with the first; the second is a matter of readiness (app/roles/).
    missing = of_l1 - here - {"fee_asset_handler_address", "require_canonical_rollup"}
    assert not missing
