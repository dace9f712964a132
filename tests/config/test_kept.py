"""The list of settings without effect says neither too much nor too little."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastnode.config.configuration import KEYS
from fastnode.config.kept import KEPT, without_effect
from fastnode.config.settings import Setting, Settings, rows

PACKAGE = Path(__file__).parents[2] / "src" / "fastnode"
#: Where settings are written down, and where they are only shown.
TABLES = {"settings.py", "building_settings.py", "operator_settings.py", "observability_settings.py"}
TABLES |= {"validator_settings.py", "configuration.py", "kept.py"}

CODE = "\n".join(path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py")) if path.name not in TABLES)
RESOLVING = (PACKAGE / "config" / "resolve.py").read_text(encoding="utf-8")
#: The keys of nodeAdmin_getConfig behind which a setting stands.
NAMES = {key.setting.name: key.name for key in KEYS if key.setting is not None}


def is_used(row: Setting) -> bool:
    name = NAMES.get(row.name)
    by_attribute = re.search(rf"settings\.{row.attribute}\b", CODE) is not None
    return by_attribute or f'"{row.name}"' in RESOLVING or (name is not None and f'"{name}"' in CODE)


#: Settings without effect whose names are read all the same: of the two percentages it is only seen to it that they
#: are in order.
NAMED_OTHERWISE = {
    "slash-min-penalty-percentage",
    "slash-max-penalty-percentage",
}


@pytest.mark.parametrize("row", rows(Settings), ids=lambda row: row.name)
def test_a_setting_is_used_or_listed_as_without_effect(row: Setting) -> None:
    if row.name not in NAMED_OTHERWISE:
        assert is_used(row) is (row.name not in KEPT)


def test_the_list_names_settings() -> None:
    assert {row.name for row in rows(Settings)} >= KEPT.keys()
    assert KEPT.keys() >= NAMED_OTHERWISE


def test_what_a_setting_needs_depends_on_the_others() -> None:
    given = ["slash-inactivity-penalty", "port", "max-txs-per-block", "key-store-directory", "coinbase"]
    found = without_effect(Settings(), given)
    assert list(found.values()) == [
        ["coinbase", "max-txs-per-block"],
        ["key-store-directory"],
        ["slash-inactivity-penalty"],
    ]
    builder, signer, watch = found
    assert builder == "--local-network or --sequencer"
    assert builder not in without_effect(Settings(local_network=True), given)
    assert "sign" in signer
    assert watch == "--sentinel-enabled"
    assert watch not in without_effect(Settings(sentinel_enabled=True), given)


def test_whether_proofs_are_real_is_asked_where_a_chain_is_learned_from_l1() -> None:
    given = ["prover-real-proofs"]
    learned = Settings(l1_rpc_urls=("http://l1",), blob_file_store_urls=("file:///blobs",))
    assert without_effect(learned, given) == {}
    [(need, names)] = without_effect(Settings(), given).items()
    assert (names, need.startswith("a chain that is learned from L1")) == (given, True)


def test_every_setting_of_validators_and_offenses_does_something_or_is_named() -> None:
    sections = ("Validator", "High availability", "Slashing and statistics")
    #: The switches that bring the rest to life, or are refused.
    alive = {"validator-ha-signing-enabled", "sentinel-enabled"}
    names = {row.name for row in rows(Settings) if row.section in sections}
    named = {name for found in without_effect(Settings(), names).values() for name in found}
    assert names - named == alive


def test_a_start_warns_of_what_it_was_given_without_effect_and_says_what_it_would_need(
    start_node: Callable[..., Any], short_chain: Path
) -> None:
    node = start_node("--chain-file", short_chain, "--max-txs-per-block=5", COINBASE="0x" + "12" * 20)
    node.wait_until_serving()
    line = node.wait_for_line("settings without effect here")
    assert (line["level"], line["names"]) == ("warning", "coinbase max-txs-per-block")
    assert line["need"] == "--local-network or --sequencer"
