"""A bad value of any setting is found before a start opens a port or a database, and by ``fastnode config show``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.config.configured import EVERY_PART

from fastnode.app.process import node as node_module
from fastnode.app.process.node import Node
from fastnode.app.process.value_checks import check_values
from fastnode.cli.app import root
from fastnode.config.resolve import resolve
from fastnode.config.settings import Setting, Settings, rows
from fastnode.errors import StartError
from fastnode.values.arrays import ArrayOf
from fastnode.values.choices import Boolean, Choice
from fastnode.values.numbers import Amount, Integer, Number, Seconds, Size
from fastnode.values.texts import FilePath, HexText, Text

#: Bad values of settings whose type takes any text, and the settings with which their part runs.
BAD_TEXTS: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "host": (("http://here", "a b"), {}),
    "admin-host": (("http://here",), {}),
    "metrics-host": (("here:1",), {}),
    "p2p-listen-addr": (("http://here",), {}),
    "workers": (("many", "-1"), {}),
    "keep-txs": (("many", "1xb"), {}),
    "api-prefix": (("a b", "?"), {}),
    "log-level": (("loud",), {}),
    "tx-public-setup-allow-list-extend": (("X:1:2", "I:0x01"), {}),
    "network-config": (("/no/such/file", "http://"), {}),
    "network": (("nowhere",), {}),
    "release": (("0.0.1",), {}),
    "release-record": (("/no/such/file",), {}),
    "vk-tree-root": (("zz",), {}),
    "admin-api-key-hash": (("zz", "0" * 63), {}),
    "upstream-admin-api-key": (("clé",), {"upstream-admin-url": "http://127.0.0.1:1"}),
    "prefund": (("zz", "0x01:much"), {}),
    "fork-from": (("/no/such/place",), {"local-network": "true"}),
    "p2p-peer": (("nowhere", "host:port"), {"p2p-enabled": "true"}),
    "p2p-ip": (("nonsense", "::1"), {"p2p-enabled": "true"}),
    "peer-id-private-key": (("zz",), {"p2p-enabled": "true"}),
    "p2p-trusted-peers": (("enr:zz",), {"p2p-enabled": "true"}),
    "p2p-private-peers": (("enr:zz",), {"p2p-enabled": "true"}),
    "p2p-preferred-peers": (("enr:zz",), {"p2p-enabled": "true"}),
    "bootstrap-nodes": (("enr:zz",), {"p2p-enabled": "true"}),
    "p2p-peer-penalty-values": (("1,2", "a,b,c"), {"p2p-enabled": "true"}),
    "bus-url": (("http://bus",), {}),
    "bus-name": (("a b",), {"bus-url": "nats://127.0.0.1:1"}),
    "bus-credentials": (("/no/such/file",), {"bus-url": "nats://127.0.0.1:1"}),
    "bus-nkey": (("/no/such/file",), {"bus-url": "nats://127.0.0.1:1"}),
    "bus-tls-ca": (("/no/such/file",), {"bus-url": "nats://127.0.0.1:1"}),
    "bus-tls-certificate": (("/no/such/file",), {"bus-url": "nats://127.0.0.1:1", "bus-tls-key": __file__}),
    "bus-tls-key": (("/no/such/file",), {"bus-url": "nats://127.0.0.1:1"}),
    "webhook-url": (("ftp://there", "http://127.0.0.1:1/#nonsense"), {"webhook-secret-file": __file__}),
    "webhook-secret-file": (("/no/such/file",), {"webhook-url": "http://127.0.0.1:1"}),
    "rpc-limits": (("/no/such/file", "preset:nonsense", __file__), {}),
    "chain-file": (("/no/such/file",), {}),
    "genesis": (("/no/such/file",), {}),
    "load-state": (("/no/such/file",), {"local-network": "true"}),
    "dump-state": (("/no/such/folder/file",), {"local-network": "true"}),
    "state": (("/no/such/folder/file",), {"local-network": "true"}),
    "key-store-directory": (("/no/such/folder",), {"sequencer": "true"}),
    "proof-verifier-command": (("no-such-program-anywhere", "'"), {}),
    "prover-command": (("no-such-program-anywhere", "'"), {"prover-node": "true"}),
    "l1-consensus-host-api-keys": (("a,b",), {"l1-consensus-host-urls": "http://127.0.0.1:1"}),
    "l1-consensus-host-api-key-headers": (("a,b",), {"l1-consensus-host-urls": "http://127.0.0.1:1"}),
    "validator-private-keys": (("zz", "0x" + "00" * 31), {"sequencer": "true"}),
    "seq-publisher-private-keys": (("zz",), {"sequencer": "true"}),
    "prover-publisher-private-keys": (("zz",), {"prover-node": "true"}),
    "validator-ha-database-url": (("mysql://there",), {}),
    **{
        name: (("nonsense:x", "ftp://there", "http://"), {})
        for name in (
            *("upstream-url", "upstream-admin-url", "public-simulator-url", "web3-signer-url", "l1-rpc-urls"),
            *("l1-consensus-host-urls", "ethereum-debug-hosts", "blob-archive-api-url", "traces-collector-url"),
            "metrics-collector-url",
        )
    },
    **{
        name: (("nonsense", "ftp://there", "s3://"), {})
        for name in (
            *("snapshots-urls", "snapshot-upload-locations", "blob-file-store-urls", "blob-file-store-upload-url"),
        )
    },
}

#: Settings of which any text is a value: names, seeds, and what a part that this node does not have would read.
ANY_TEXT = frozenset(
    (
        *("network-node-version", "seed", "validator-ha-node-id", "admin-names", "local-network-origins"),
        *("otel-exclude-metrics", "otel-include-metrics", "fork-sources"),
        *("node-url", "prover-proof-store", "prover-failed-proof-store", "tx-collection-file-store-urls"),
        *("acvm-working-directory", "acvm-binary-path"),
    )
)
#: Paths that a start makes, or that a bb of the machine may stand in for.
MADE = frozenset(("data-directory", "peer-id-private-key-path", "bb-binary-path", "bb-working-directory"))


def bad_texts(row: Setting) -> tuple[str, ...]:
    """Bad values of a setting, as text; none for one of which any text is a value."""
    kind = row.kind
    if row.name in BAD_TEXTS:
        return BAD_TEXTS[row.name][0]
    if isinstance(kind, Boolean | Choice):
        return ("perhaps",)
    if isinstance(kind, Integer | Number):
        return "x", "1e", str(kind.minimum - 1), str(kind.maximum + 1)
    if isinstance(kind, Seconds | Size):
        return "x", "-1", "1 fortnight"
    if isinstance(kind, Amount):
        return "x", "-1", "1.5"
    if isinstance(kind, HexText) or (isinstance(kind, ArrayOf) and isinstance(kind.element, HexText)):
        return "zz", "0x12"
    return ()


#: Read by each command itself, before its settings are checked: records are of the whole process.
BY_COMMAND = "release-record"
NAMED = [(row, text) for row in rows(Settings) if row.name != BY_COMMAND for text in bad_texts(row)]


def beside(row: Setting) -> Mapping[str, str]:
    return BAD_TEXTS.get(row.name, ((), {}))[1]


def flags_of(row: Setting, text: str) -> dict[str, str]:
    others = beside(row)
    if "sequencer" in others or "prover-node" in others or row.name.startswith("l1-consensus-host-api"):
        others = {"l1-rpc-urls": "http://127.0.0.1:1", "blob-file-store-urls": "file:///nowhere", **others}
    return {**others, row.name: text}


def checked(flags: Mapping[str, str]) -> Settings:
    settings = resolve(Settings, flags=flags, environment={}, config_file=None).values
    check_values(settings)
    return settings


def test_each_setting_has_bad_values_or_any_text_is_one() -> None:
    without = {row.name for row in rows(Settings) if not bad_texts(row)}
    assert without == ANY_TEXT | MADE
    kinds = {type(row.kind) for row in rows(Settings) if row.name in without}
    assert kinds <= {Text, FilePath, ArrayOf}


@pytest.mark.parametrize(("row", "text"), NAMED, ids=lambda item: item.name if isinstance(item, Setting) else item[:20])
def test_a_bad_value_is_found_before_anything_is_opened(row: Setting, text: str) -> None:
    with pytest.raises(StartError) as error:
        checked(flags_of(row, text))
    said = str(error.value)
    assert any(
        name in said
        for name in (row.flag, row.name, *row.environment, "admin API key hash", "network configuration", text)
    ), said
    assert not row.secret or len(text) < 8 or text.startswith(("nonsense", "ftp:", "mysql")) or text not in said


OPENED_LATE = ["admin-api-key-hash", "vk-tree-root", "prefund", "p2p-peer", "rpc-limits", "metrics-collector-url"]


@pytest.mark.parametrize("name", OPENED_LATE)
def test_a_start_opens_nothing_and_config_show_fails(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    row = next(row for row in rows(Settings) if row.name == name)
    flags = flags_of(row, bad_texts(row)[0])
    opened: list[str] = []

    async def open_node(*_arguments: Any) -> Any:
        opened.append(name)
        raise AssertionError("a database is opened")

    monkeypatch.setattr(node_module, "open_node", open_node)
    settings = resolve(Settings, flags=flags, environment={}, config_file=None).values
    with pytest.raises(StartError):
        asyncio.run(Node.start(settings))
    assert opened == []
    arguments = [
        f"--{flag}" if text == "true" else f"--{flag}={text}"
        for flag, text in (flags | {"data-directory": str(tmp_path / "data")}).items()
    ]
    done = CliRunner().invoke(root, ["config", "show", *arguments])
    assert done.exit_code != 0
    assert not (tmp_path / "data").exists()


def test_a_record_of_a_release_that_is_not_there_is_found_by_each_command() -> None:
    for command in (["config", "show"], ["start", "--node"]):
        done = CliRunner().invoke(root, [*command, "--release-record=/no/such/file"])
        assert isinstance(done.exception, StartError)
        assert "--release-record /no/such/file" in str(done.exception)


def test_good_values_of_every_part_are_accepted() -> None:
    check_values(Settings(**EVERY_PART | {"validator_private_keys": ("0x" + "01" * 32,)}))
