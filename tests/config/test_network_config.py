"""The network configuration: below every other layer, and checked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.http_stand_in import HttpStandIn, answer

from fastnode.config import network_config
from fastnode.config.allow_list import parse_allow_list
from fastnode.config.network_config import NETWORK_CONFIG_SETTINGS, read_network_config
from fastnode.config.resolve import Origin, Resolved, resolve
from fastnode.config.settings import Settings
from fastnode.errors import SettingError

ENTRY = f"I:0x{'00' * 31}05:0x12345678"
CONFIG: dict[str, Any] = {
    "bootnodes": ["enr:-abc"],
    "snapshots": ["https://example.org/snapshots"],
    "registryAddress": "0x" + "AB" * 20,
    "l1ChainId": 11155111,
    "feeAssetHandlerAddress": "0x" + "00" * 20,
    "blobFileStoreUrls": ["https://example.org/a", "https://example.org/b"],
    "txCollectionFileStoreUrls": ["https://example.org/txs"],
    "blockDurationMs": 6000,
    "nodeVersion": "4.1.2",
    "txPublicSetupAllowListExtend": ENTRY,
    "somethingNew": {"of": "a later release"},
}
EXPECTED = {
    "bootstrap-nodes": ("enr:-abc",),
    "snapshots-urls": ("https://example.org/snapshots",),
    "registry-address": "0x" + "ab" * 20,
    "l1-chain-id": 11155111,
    "blob-file-store-urls": ("https://example.org/a", "https://example.org/b"),
    "block-duration-ms": 6000,
    "fee-asset-handler-address": "0x" + "00" * 20,
    "network-node-version": "4.1.2",
    "tx-collection-file-store-urls": ("https://example.org/txs",),
    "tx-public-setup-allow-list-extend": parse_allow_list(ENTRY),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "network.json"
    path.write_text(json.dumps(CONFIG))
    return path


def resolved(
    file: Path | str,
    environment: dict[str, str] | None = None,
    flags: dict[str, str] | None = None,
    toml: Path | None = None,
) -> Resolved[Settings]:
    environment = {"SVC_NETWORK_CONFIG": str(file)} | (environment or {})
    return resolve(Settings, flags=flags or {}, environment=environment, config_file=toml)


def test_every_setting_it_can_give_is_taken_from_it(file: Path) -> None:
    found = resolved(file)
    assert set(EXPECTED) == set(NETWORK_CONFIG_SETTINGS.values())
    for name, value in EXPECTED.items():
        assert getattr(found.values, name.replace("-", "_")) == value
        assert found.origins[name] == Origin("network", str(file))


def test_what_is_set_here_wins(file: Path, tmp_path: Path) -> None:
    toml = tmp_path / "node.toml"
    toml.write_text("block-duration-ms = 1")
    environment = {"TX_PUBLIC_SETUP_ALLOWLIST": "", "SYNC_SNAPSHOTS_URLS": "https://example.org/mine"}
    found = resolved(file, environment, {"l1-chain-id": "1"}, toml)
    assert found.values.block_duration_ms == 1
    assert found.values.snapshots_urls == ("https://example.org/mine",)
    assert found.values.l1_chain_id == 1
    assert found.values.tx_public_setup_allow_list_extend == parse_allow_list(ENTRY)  # an empty variable is not set
    mine = f"C:0x{'00' * 31}07:0x87654321"
    found = resolved(file, {"TX_PUBLIC_SETUP_ALLOWLIST": mine})
    assert found.values.tx_public_setup_allow_list_extend == parse_allow_list(mine)


def test_one_of_several_networks_is_chosen_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "networks.json"
    path.write_text(json.dumps({"one": CONFIG, "two": CONFIG | {"l1ChainId": 2}}))
    assert resolved(path, {"NETWORK": "two"}).values.l1_chain_id == 2
    with pytest.raises(SettingError, match=r"choose one with --network: one, two$"):
        read_network_config(str(path), None)
    with pytest.raises(SettingError, match=r"there is no network 'three' in it, but one, two$"):
        read_network_config(str(path), "three")
    path.write_text("{}")
    for name in ("one", None):
        with pytest.raises(SettingError, match=r"networks\.json has no network in it$"):
            read_network_config(str(path), name)


@pytest.mark.parametrize("field", ["bootnodes", "snapshots", "registryAddress", "l1ChainId"])
def test_a_required_field_that_is_missing_is_named(file: Path, field: str) -> None:
    file.write_text(json.dumps({"registryAddress": "0x" + "00" * 20} | {k: v for k, v in CONFIG.items() if k != field}))
    if field == "registryAddress":
        file.write_text(json.dumps({k: v for k, v in CONFIG.items() if k != field}))
    with pytest.raises(SettingError, match=rf"^network configuration .*: {field} is missing$"):
        resolved(file)


@pytest.mark.parametrize(
    ("field", "value", "shape"),
    [
        ("bootnodes", "enr", "(an array|text that is not empty)"),
        ("snapshots", [1], "(an array|text that is not empty)"),
        ("registryAddress", 5, "text that is not empty"),
        ("l1ChainId", "1", "a whole number"),
        ("l1ChainId", True, "a whole number"),
        ("blockDurationMs", 1.5, "a whole number"),
        ("txPublicSetupAllowListExtend", [1], "text that is not empty"),
    ],
)
def test_a_field_of_a_wrong_type_is_named(file: Path, field: str, value: object, shape: str) -> None:
    file.write_text(json.dumps(CONFIG | {field: value}))
    with pytest.raises(SettingError, match=rf": {field}(\[0\])? must be {shape}, got"):
        resolved(file)


def test_a_value_that_its_setting_does_not_allow_is_named_as_a_setting(file: Path) -> None:
    file.write_text(json.dumps(CONFIG | {"registryAddress": "0x12"}))
    with pytest.raises(SettingError, match=r"^registry-address in .*: bad value '0x12'; allowed: 0x and 40 hex"):
        resolved(file)


def test_a_file_that_is_not_there_or_not_json_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"missing\.json cannot be read: No such file or directory$"):
        resolved(tmp_path / "missing.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(SettingError, match=r"bad\.json is not JSON: "):
        resolved(tmp_path / "bad.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(SettingError, match=r"list\.json: not an object$"):
        resolved(tmp_path / "list.json")


# ---- from a URL ------------------------------------------------------------------------------------------


def respond(handler: BaseHTTPRequestHandler, _body: bytes) -> None:
    body = {
        "/good.json?key=s3cret": json.dumps(CONFIG).encode(),
        "/large.json": b" " * 2001,
        "/bad.json": b"<html>",
    }.get(handler.path)
    answer(handler, body or b"", 404 if body is None else 200)


@pytest.fixture
def url() -> Iterator[str]:
    with HttpStandIn(respond) as server:
        yield server.url


def test_it_may_come_from_a_url_whose_secrets_are_not_shown(url: str) -> None:
    found = resolved(f"{url}/good.json?key=s3cret")
    for name, value in EXPECTED.items():
        assert getattr(found.values, name.replace("-", "_")) == value
        assert found.origins[name] == Origin("network", f"{url}/good.json")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/gone.json?key=s3cret", r"gone\.json cannot be fetched: HTTP status 404$"),
        ("/large.json", r"large\.json cannot be fetched: its answer exceeds 2000 bytes$"),
        ("/bad.json", r"bad\.json is not JSON: "),
    ],
)
def test_what_is_wrong_with_what_a_url_gives_is_named(
    url: str, path: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_config, "_BYTES_MAX", 2000)
    with pytest.raises(SettingError, match=message) as failure:
        resolved(url + path)
    assert "s3cret" not in str(failure.value)


def test_a_url_without_an_answer_is_named_without_its_password() -> None:
    with pytest.raises(SettingError, match=r"http://127\.0\.0\.1:1/x cannot be fetched: ") as failure:
        resolved("http://user:s3cret@127.0.0.1:1/x")
    assert "s3cret" not in str(failure.value)


@pytest.mark.parametrize(
    ("name", "chain_id", "registry"),
    [
        ("mainnet", 1, "0x35b22e09ee0390539439e24f06da43d83f90e298"),
        ("testnet", 11155111, "0xa0bfb1b494fb49041e5c6e8c2c1be09cd171c6ba"),
    ],
)
def test_networks_of_the_records_need_no_configuration(name: str, chain_id: int, registry: str) -> None:
    found = resolve(Settings, flags={"network": name}, environment={}, config_file=None)
    assert (found.values.l1_chain_id, found.values.registry_address) == (chain_id, registry)
    assert found.origins["registry-address"] == Origin("network", name)
    other = {"network": name, "registry-address": "0x" + "12" * 20}
    assert resolve(Settings, flags=other, environment={}, config_file=None).values.registry_address == "0x" + "12" * 20


def test_a_configuration_goes_before_the_records(tmp_path: Path) -> None:
    path = tmp_path / "networks.json"
    path.write_text(json.dumps({"mainnet": CONFIG}))
    found = resolve(
        Settings, flags={"network": "mainnet", "network-config": str(path)}, environment={}, config_file=None
    )
    assert found.values.registry_address == EXPECTED["registry-address"]
