"""The file of limits: what it may say, and how mistakes in it are named."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from fastnode.errors import SettingError
from fastnode.jsonrpc.rate_limit_rules import DEFAULT_COSTS, Rate, RateLimitRules, read_rate_limit_rules

METHODS = ("node_getBlock", "node_getBlocks", "node_getBlockNumber", "node_sendTx", "fastnode_getGenesis")
DIGEST = hashlib.sha256(b"secret").hexdigest()
OTHER_DIGEST = hashlib.sha256(b"other").hexdigest()


def read(tmp_path: Path, text: str, name: str = "limits.toml") -> RateLimitRules:
    file = tmp_path / name
    file.write_text(text)
    return read_rate_limit_rules(file, METHODS)


def test_an_empty_file_limits_nothing(tmp_path: Path) -> None:
    rules = read(tmp_path, "")
    assert rules.address_rate is None
    assert not rules.requires_key
    assert rules.origins is None
    assert set(rules.prices) == set(METHODS)
    assert rules.prices["node_getBlock"] == 1
    assert rules.prices["node_getBlocks"] == DEFAULT_COSTS["node_getBlocks"]


FULL = f"""
requires-key = true
[address]
rate = 5
burst = 60
count-max = 10
[keys.partner]
sha256 = "{DIGEST.upper()}"
rate = 1000
deny = ["node_getBlocks"]
[keys.friend]
sha256 = "{OTHER_DIGEST}"
[costs]
default = 2
"node_getBlock*" = 7
node_getBlockNumber = 0
[methods]
allow = ["node_*"]
deny = ["node_sendTx"]
[cors]
origins = ["https://wallet.example", "http://localhost:3000"]
[proxies]
trusted = ["10.0.0.0/8", "::1"]
"""


def test_every_table_is_read(tmp_path: Path) -> None:
    rules = read(tmp_path, FULL)
    assert rules.requires_key
    assert rules.address_rate is not None
    assert (rules.address_rate.per_second, rules.address_rate.burst) == (5, 60)
    assert rules.addresses_max == 10
    assert rules.prices == {"node_getBlock": 7, "node_getBlocks": 7, "node_getBlockNumber": 0}
    partner, friend = rules.keys
    assert (partner.name, partner.digest) == ("partner", bytes.fromhex(DIGEST))
    assert partner.rate is not None
    assert (partner.rate.per_second, partner.rate.burst) == (1000, 1000)
    assert set(partner.prices) == {"node_getBlock", "node_getBlockNumber"}
    assert friend.rate is None
    assert rules.origins == {"https://wallet.example", "http://localhost:3000"}
    assert [str(network) for network in rules.trusted_proxies] == ["10.0.0.0/8", "::1/128"]


def test_json_says_the_same_as_toml(tmp_path: Path) -> None:
    content = {"address": {"rate": 5, "burst": 60}, "cors": {"origins": ["*"]}}
    rules = read(tmp_path, json.dumps(content), "limits.json")
    assert rules == read(tmp_path, '[address]\nrate = 5\nburst = 60\n[cors]\norigins = ["*"]\n')
    assert rules.origins is None


def test_without_a_burst_the_dearest_method_can_be_called(tmp_path: Path) -> None:
    rate = read(tmp_path, "[address]\nrate = 2\n").address_rate
    assert rate is not None
    assert rate.burst == DEFAULT_COSTS["node_sendTx"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[address", "limits.toml"),
        ("rate = 5", "rate: unknown; known are"),
        ("[address]\nrates = 5", "address.rates: unknown"),
        ("[address]\nrate = 0", "address.rate: must be a number from 1e-06 to 1e+09, got 0"),
        ("[address]\nrate = true", "address.rate: must be a number from 1e-06 to 1e+09, got True"),
        ("[address]\nrate = nan", "address.rate: must be a number"),
        ('[address]\nrate = "5"', "address.rate: must be a number from 1e-06 to 1e+09, got '5'"),
        ("[address]\nburst = 5", "address.burst: needs a rate beside it"),
        ("[address]\nrate = 5\nburst = 9", "address.burst: 9 is less than node_sendTx costs (20)"),
        ("[address]\nrate = 50\ncount-max = 0", "address.count-max: must be a whole number"),
        ("address = 5", "address: must be a table, got 5"),
        ("requires-key = 1", "requires-key: must be true or false, got 1"),
        ("requires-key = true", "requires-key: there is no key"),
        ("[keys.a]", "keys.a.sha256: must be the SHA-256 of a key: 64 hex digits"),
        ('[keys.a]\nsha256 = "my-secret-key"', "keys.a.sha256: must be the SHA-256 of a key: 64 hex digits"),
        (f'[keys."a b"]\nsha256 = "{DIGEST}"', "keys.a b: a name is"),
        (f'[keys.a]\nsha256 = "{DIGEST}"\n[keys.b]\nsha256 = "{DIGEST}"', "keys.b.sha256: the same key as keys.a"),
        (f'[keys.a]\nsha256 = "{DIGEST}"\nrate = -1', "keys.a.rate: must be a number"),
        (f'[keys.a]\nsha256 = "{DIGEST}"\nallow = ["node_getTime"]', "keys.a.allow: there is no method 'node_getTime'"),
        ("[costs]\nnode_getBlok = 5", "costs.node_getBlok: there is no method 'node_getBlok'"),
        ("[costs]\nnode_getBlock = -5", "costs.node_getBlock: must be a number from 0"),
        ('[methods]\ndeny = "node_getBlock"', "methods.deny: must be a list of texts, got 'node_getBlock'"),
        ('[methods]\nallow = ["nodeAdmin_*"]', "methods.allow: there is no method 'nodeAdmin_*'"),
        ('[cors]\norigins = ["wallet.example"]', "cors.origins: must be like https://host"),
        ('[cors]\norigins = ["https://a.example/"]', "cors.origins: must be like https://host"),
        ('[proxies]\ntrusted = ["10.0.0.1/8"]', "proxies.trusted: must be an address or a network: 10.0.0.1/8"),
    ],
)
def test_a_mistake_is_named_with_file_key_and_value(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SettingError) as caught:
        read(tmp_path, text)
    assert str(tmp_path / "limits.toml") in str(caught.value)
    assert words in str(caught.value)
    assert "my-secret-key" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"nowhere\.toml cannot be read"):
        read_rate_limit_rules(tmp_path / "nowhere.toml", METHODS)


def test_the_preset_for_public_endpoints_gives_each_address_a_budget() -> None:
    rules = read_rate_limit_rules(Path("preset:public"), {"node_getBlockNumber", "node_findLeavesIndexes"})
    assert rules.address_rate == Rate(100.0, 400.0)
    assert rules.prices == {"node_getBlockNumber": 1.0, "node_findLeavesIndexes": 3.0}
    assert not rules.requires_key


def test_an_unknown_preset_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(SettingError, match="known are preset:public"):
        read_rate_limit_rules(Path("preset:pubic"), {"node_getBlockNumber"})
