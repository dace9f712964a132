"""nodeAdmin_getConfig and nodeAdmin_setConfig: every key, its type, its setting, and what a change does."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.config.configured import EVERY_PART, attach_all, configured
from tests.config.examples import examples

from fastnode.api.admin import methods
from fastnode.app.ground.effects import configuration_of
from fastnode.config.allow_list import parse_allow_list
from fastnode.config.config_keys import FAULT, KEYS, POOL, VOTES, ConfigKey
from fastnode.config.configuration import ConfigPatch, NodeConfiguration
from fastnode.config.resolve import resolve
from fastnode.config.settings import Settings
from fastnode.errors import ValueRefused
from fastnode.jsonrpc.engine import Engine, Reply
from fastnode.jsonrpc.methods import MethodTable
from fastnode.values.arrays import ArrayOf
from fastnode.values.choices import Boolean, Choice
from fastnode.values.numbers import Amount, Integer, Number
from fastnode.values.refusal import Reject
from fastnode.values.texts import FilePath, HexText, Text

DATA = Path(__file__).parents[1] / "data" / "admin"
RECORDED: dict[str, Any] = json.loads((DATA / "recorded_config.json").read_text())
TOKEN_CLASS = "0x01efe16b55107894e6b6fb63cebc1a3233e23bbcd648fd9cdf6c0351749ce7ee"
ALLOW_LIST = f"C:{TOKEN_CLASS}:0xe7f045ff:os+cl=3,C:{TOKEN_CLASS}:0x8c9e5472:cl=5"

PLAIN_KEYS = [key for key in KEYS if key.name != "txPublicSetupAllowListExtend"]
FIXED = [key for key in KEYS if key.is_fixed]
LIVE = [key for key in PLAIN_KEYS if key.readers]
SECRET = [key for key in KEYS if key.is_secret]


def good_json(key: ConfigKey) -> Any:
    """A value for setConfig that is not the default."""
    kind = key.kind
    if isinstance(kind, Boolean):
        return not key.default
    if isinstance(kind, Choice):
        return "realistic"
    if isinstance(kind, Integer):
        return kind.minimum + 7
    if isinstance(kind, Number):
        return kind.minimum + 0.75
    if isinstance(kind, Amount):
        return "123456789012345678901234567890"
    if isinstance(kind, HexText):
        return "0x" + "0a" * kind.byte_count
    if isinstance(kind, ArrayOf):
        return ["0x" + "0a" * 20]
    assert isinstance(kind, Text | FilePath)
    return "/some/where"


def bad_json(key: ConfigKey) -> list[Any]:
    """Values of other types, and out of range."""
    kind = key.kind
    bad: list[Any] = [{}, [[]]]
    if not isinstance(kind, Boolean):
        bad.append(True)
    if isinstance(kind, Integer | Number):
        bad += ["1", kind.minimum - 1, kind.maximum + 1]
    if isinstance(kind, Integer):
        bad.append(kind.minimum + 0.5)
    if isinstance(kind, Boolean | Choice | Text | FilePath | HexText):
        bad.append(1)
    if isinstance(kind, Amount):
        bad += ["-1", "0x1", 1.5, -1]
    if isinstance(kind, ArrayOf):
        bad += ["", "0x" + "0a" * 20, ["0x12"]]
    if isinstance(kind, HexText):
        bad += ["", "0x12"]
    return bad


def change(configuration: NodeConfiguration, **keys: Any) -> None:
    configuration.change(ConfigPatch().from_json(keys))


# ---- getConfig ------------------------------------------------------------------------------------


def test_the_configuration_of_a_recorded_node_is_shown_as_that_node_shows_it() -> None:
    settings = Settings(
        min_txs_per_block=60,
        per_block_allocation_multiplier=6,
        coinbase=RECORDED["coinbase"],
        l1_publishing_time=16,
        block_duration_ms=2500,
    )
    shown = configuration_of(settings, allow_list_extension=parse_allow_list(ALLOW_LIST), real_proofs=False).describe()
    assert json.dumps(shown) == json.dumps(RECORDED)


def test_the_defaults_are_those_of_the_networks_nodes() -> None:
    shown = configuration_of(Settings(), allow_list_extension=(), real_proofs=True).describe()
    here = {"minTxsPerBlock": 1, "perBlockAllocationMultiplier": 2, "realProofs": True}
    absent = {"coinbase", "txPublicSetupAllowListExtend", "l1PublishingTime", "blockDurationMs"}
    assert shown == {name: value for name, value in RECORDED.items() if name not in absent} | here


@pytest.mark.parametrize("key", [key for key in PLAIN_KEYS if key.setting], ids=lambda key: key.name)
def test_a_key_shows_its_setting_under_each_environment_name(key: ConfigKey) -> None:
    assert key.setting is not None
    text = examples(key.setting)[0]
    for name in key.setting.environment:
        settings = resolve(Settings, flags={}, environment={name: text}, config_file=None).values
        shown = NodeConfiguration(settings).describe()
        if key.is_secret:
            assert key.name not in shown
            continue
        value = key.kind.from_text(text)
        expected = str(value) if isinstance(key.kind, Amount | FilePath) else value
        assert shown[key.name] == (list(expected) if isinstance(expected, tuple) else expected)


def test_secrets_are_never_shown() -> None:
    assert {key.name for key in SECRET} == {"databaseUrl", "nodeUrl", "proofStore", "failedProofStore"}
    url, store = "http://hunter2@host", "s3://hunter2"
    configuration = configured(
        validator_ha_database_url="postgresql://u:hunter2@h/d",
        prover_proof_store=store,
        prover_failed_proof_store=store,
        node_url=url,
    )
    assert configuration["nodeUrl"] == url
    assert "hunter2" not in json.dumps(configuration.describe())
    for key in SECRET:
        with pytest.raises(ValueRefused) as refusal:
            change(configuration, **{key.name: "s3://hunter3"})
        assert "hunter" not in refusal.value.message


# ---- setConfig ------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", LIVE, ids=lambda key: key.name)
def test_a_key_that_a_part_reads_is_merged_and_shown(key: ConfigKey) -> None:
    configuration = configured()
    before = configuration.describe()
    change(configuration, **{key.name: good_json(key)})
    assert configuration.describe() == before | {key.name: good_json(key)}


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_a_value_of_a_wrong_type_is_refused_by_name_and_changes_nothing(key: ConfigKey) -> None:
    for bad in bad_json(key) if key in PLAIN_KEYS else ["I:0x01", [1], [{}]]:
        with pytest.raises(Reject) as refusal:
            ConfigPatch().from_json({"maxPendingTxCount": 5, key.name: bad})
        assert refusal.value.path.startswith(f".{key.name}")
        assert refusal.value.reason.startswith("must be ")


@pytest.mark.parametrize("key", LIVE, ids=lambda key: key.name)
def test_null_takes_a_value_away(key: ConfigKey) -> None:
    configuration = configured()
    before = configuration.describe()
    change(configuration, **{key.name: good_json(key)})
    change(configuration, **{key.name: None})
    assert configuration.describe() == before


def test_null_leaves_proofs_to_the_network_and_the_allow_list_empty() -> None:
    extension = parse_allow_list(ALLOW_LIST)
    configuration = attach_all(configuration_of(Settings(), allow_list_extension=extension, real_proofs=False))
    change(configuration, realProofs=True)
    change(configuration, realProofs=None, txPublicSetupAllowListExtend=None)
    assert configuration["realProofs"] is False
    assert configuration["txPublicSetupAllowListExtend"] is None


def test_a_fixed_key_cannot_be_taken_away() -> None:
    configuration = configured(validator_ha_signing_enabled=True, validator_ha_node_id="one")
    with pytest.raises(ValueRefused, match="nodeId"):
        change(configuration, nodeId=None)
    change(configuration, databaseUrl=None)  # it is not set


def test_a_blocks_gas_is_capped_at_that_of_a_checkpoint(caplog: pytest.LogCaptureFixture) -> None:
    builder = Settings(local_network=True)
    configuration = attach_all(
        configuration_of(builder, allow_list_extension=(), real_proofs=False, mana_limit=200_000_000)
    )
    change(configuration, maxL2BlockGas=1e15, maxDABlockGas=786_433)
    assert (configuration["maxL2BlockGas"], configuration["maxDABlockGas"]) == (200_000_000, 786_432)
    assert "capped at the limit of a checkpoint" in caplog.text
    change(configuration, maxL2BlockGas=5, validateMaxL2BlockGas=10**15)
    assert (configuration["maxL2BlockGas"], configuration["validateMaxL2BlockGas"]) == (5, 10**15)


@pytest.mark.parametrize("key", FIXED, ids=lambda key: key.name)
def test_a_key_that_is_fixed_says_so_and_nothing_of_the_call_is_done(key: ConfigKey) -> None:
    assert key.setting is not None
    configuration = configured(validator_ha_signing_enabled=key.name != "haSigningEnabled")
    before = configuration.describe()
    with pytest.raises(ValueRefused) as refusal:
        change(configuration, maxPendingTxCount=5, **{key.name: good_json(key)})
    assert refusal.value.message == (
        f"Invalid params: config.{key.name} (parameter 1) cannot change while the node runs; "
        f"set {key.setting.environment[-1]} and start the node again"
    )
    assert configuration.describe() == before


def test_the_whole_configuration_can_be_sent_back() -> None:
    """What a tool reads, edits and sends: fixed keys with their values are no change."""
    configuration = configuration_of(Settings(), allow_list_extension=parse_allow_list(ALLOW_LIST), real_proofs=True)
    before = configuration.describe()
    change(configuration, **json.loads(json.dumps(before)))
    assert configuration.describe() == before


def test_the_allow_list_is_replaced() -> None:
    configuration = configured()
    change(configuration, txPublicSetupAllowListExtend=RECORDED["txPublicSetupAllowListExtend"])
    assert configuration["txPublicSetupAllowListExtend"] == parse_allow_list(ALLOW_LIST)
    assert configuration.describe()["txPublicSetupAllowListExtend"] == RECORDED["txPublicSetupAllowListExtend"]
    change(configuration, txPublicSetupAllowListExtend=[])
    assert configuration["txPublicSetupAllowListExtend"] == ()


@pytest.mark.parametrize(
    "element",
    [
        {"selector": "0x12345678"},
        {"address": TOKEN_CLASS, "classId": TOKEN_CLASS, "selector": "0x12345678"},
        {"address": TOKEN_CLASS},
        {"address": TOKEN_CLASS, "selector": "0x1234567"},
        {"address": TOKEN_CLASS[:-2], "selector": "0x12345678"},
        {"address": "0x" + "ff" * 32, "selector": "0x12345678"},
        {"address": TOKEN_CLASS, "selector": "0x12345678", "calldataLength": -1},
        {"address": TOKEN_CLASS, "selector": "0x12345678", "calldataLength": True},
        {"address": TOKEN_CLASS, "selector": "0x12345678", "onlySelf": 1},
        {"address": TOKEN_CLASS, "selector": "0x12345678", "somethingElse": 1},
    ],
)
def test_an_element_of_the_allow_list_that_makes_no_sense_is_refused(element: dict[str, Any]) -> None:
    with pytest.raises(Reject, match=r"^must be ") as refusal:
        ConfigPatch().from_json({"txPublicSetupAllowListExtend": [element]})
    assert refusal.value.path.startswith(".txPublicSetupAllowListExtend[0]")


def test_penalty_bounds_in_the_wrong_order_are_refused() -> None:
    configuration = configured()
    with pytest.raises(ValueRefused, match=r"slashMinPenaltyPercentage .* must not be above slashMaxPenaltyPercentage"):
        change(configuration, slashMinPenaltyPercentage=3)
    change(configuration, slashMinPenaltyPercentage=3, slashMaxPenaltyPercentage=4)


def test_an_attached_part_gets_the_keys_that_have_changed_and_reads_no_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    configuration = NodeConfiguration(Settings())
    told: list[tuple[int, frozenset[str]]] = []
    view = configuration.attach(POOL, lambda view, changed: told.append((view["maxPendingTxCount"], changed)))
    with caplog.at_level(logging.INFO):
        change(configuration, maxPendingTxCount=5)
        change(configuration, maxPendingTxCount=5)
    assert told == [(5, frozenset({"maxPendingTxCount"}))]
    assert caplog.messages == ["configuration changed"]
    assert view["disableTransactions"] is False
    with pytest.raises(KeyError, match="minTxsPerBlock"):
        view["minTxsPerBlock"]


def test_an_unknown_key_is_refused_with_the_nearest_one() -> None:
    for name, meant in (("maxPendingTxCounts", "maxPendingTxCount"), ("mintxsperblock", "minTxsPerBlock")):
        with pytest.raises(Reject) as refusal:
            ConfigPatch().from_json({name: 1})
        assert refusal.value.reason == f'has an unknown key "{name}" (did you mean {meant}?)'
    with pytest.raises(Reject, match=r'has an unknown key "z"$'):
        ConfigPatch().from_json({"z": 1})


# ---- refused --------------------------------------------------------------------------------------


def reason_of(configuration: NodeConfiguration, key: ConfigKey, **others: Any) -> str:
    before = configuration.describe()
    with pytest.raises(ValueRefused) as refusal:
        change(configuration, **others, **{key.name: good_json(key)})
    assert configuration.describe() == before
    begin = f"Invalid params: config.{key.name} (parameter 1) "
    assert refusal.value.message.startswith(begin)
    return refusal.value.message.removeprefix(begin)


@pytest.mark.parametrize("key", [key for key in PLAIN_KEYS if key.refusal], ids=lambda key: key.name)
def test_a_key_that_no_part_of_any_node_reads_is_refused_with_the_reason(key: ConfigKey) -> None:
    reason = reason_of(configured(), key, maxPendingTxCount=5)
    if key.setting is None:
        assert reason == FAULT
    else:
        assert key.setting.needs is not None
        assert reason == f"has no effect: it needs {key.setting.needs.text}"


@pytest.mark.parametrize("key", [key for key in PLAIN_KEYS if key.needs], ids=lambda key: key.name)
def test_a_key_of_a_part_that_is_off_is_refused_with_what_turns_the_part_on(key: ConfigKey) -> None:
    assert key.needs is not None
    assert reason_of(attach_all(NodeConfiguration(Settings())), key) == (
        f"has no effect on this node: it needs {key.needs.text}"
    )


@pytest.mark.parametrize("key", LIVE, ids=lambda key: key.name)
def test_a_key_is_refused_while_its_part_is_not_attached(key: ConfigKey) -> None:
    assert "has not started yet" in reason_of(NodeConfiguration(Settings(**EVERY_PART)), key)


def test_a_fisherman_stays_one_until_the_next_start() -> None:
    configuration = configured(fisherman_mode=True)
    with pytest.raises(ValueRefused, match="start the node again without --fisherman-mode"):
        change(configuration, fishermanMode=False)
    other = configured()
    change(other, fishermanMode=True)
    change(other, fishermanMode=False)


def test_each_key_has_a_reader_or_a_reason() -> None:
    assert [key.name for key in KEYS if bool(key.readers) + key.is_fixed + bool(key.refusal) != 1] == []


def test_an_own_validator_is_voted_against_once_that_is_allowed_and_one_that_is_named_never() -> None:
    configuration = configured()
    own, other = "0x" + "0a" * 20, "0x" + "0b" * 20
    view = configuration.attach(VOTES)
    configuration.replace_validators([own])
    change(configuration, slashValidatorsNever=[other])
    assert view["slashValidatorsNever"] == (other, own)
    change(configuration, slashSelfAllowed=True)
    assert view["slashValidatorsNever"] == (other,)
    change(configuration, slashSelfAllowed=False, slashValidatorsNever=[other, own])
    assert view["slashValidatorsNever"] == (other, own)


# ---- as methods -----------------------------------------------------------------------------------


async def call(configuration: NodeConfiguration, method: str, *params: Any) -> dict[str, Any]:
    engine = Engine(MethodTable(methods(configuration)), lambda: None)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    reply = engine.handle(body)
    if not isinstance(reply, Reply):
        reply = await reply
    assert reply.body is not None
    answer: dict[str, Any] = json.loads(reply.text)
    return answer


def run(configuration: NodeConfiguration, method: str, *params: Any) -> dict[str, Any]:
    return asyncio.run(call(configuration, method, *params))


def test_set_config_answers_without_a_result_and_get_config_shows_the_change() -> None:
    configuration = configured()
    assert run(configuration, "nodeAdmin_setConfig", {"maxPendingTxCount": 5.0}) == {
        "jsonrpc": "2.0",
        "id": 1,
        "result": None,
    }
    assert run(configuration, "nodeAdmin_getConfig")["result"]["maxPendingTxCount"] == 5


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ([], "config (parameter 1) is required"),
        ([5], "config (parameter 1) must be an object with keys of the configuration, got 5"),
        ([{"zzz": 1}], 'config (parameter 1) has an unknown key "zzz"'),
        (
            [{"realProofs": "no"}],
            'config.realProofs (parameter 1) must be true or false, got "no"',
        ),
        (
            [{"maxPendingTxCount": -1}],
            "config.maxPendingTxCount (parameter 1) must be a whole number from 0 to 1000000, got -1",
        ),
        ([{"databaseUrl": 5}], "config.databaseUrl (parameter 1) must be text that is not empty, got (secret)"),
    ],
)
def test_what_is_wrong_with_a_call_is_answered_with_32602(params: list[Any], message: str) -> None:
    error = run(NodeConfiguration(Settings()), "nodeAdmin_setConfig", *params)["error"]
    assert error == {"code": -32602, "message": f"Invalid params: {message}"}


def test_the_environment_names_are_those_of_the_networks_nodes() -> None:
    names = json.loads((DATA / "environment_names.json").read_text())
    by_name = {key.name: key for key in KEYS}
    for key_name, environment_name in names.items():
        setting = by_name[key_name].setting
        assert setting is not None
        assert environment_name in setting.environment
    others = {key.name for key in KEYS if key.setting is not None} - set(names)
    assert others == {"maxTxsPerBlock", "slashSelfAllowed"}  # these have no name there


# ---- adversity ------------------------------------------------------------------------------------

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([key.name for key in KEYS]) | st.text(), JSON_VALUES, max_size=4))
def test_any_object_is_merged_as_a_whole_or_refused_as_a_whole(patch: dict[str, Any]) -> None:
    configuration = configured()
    before = configuration.describe()
    try:
        change(configuration, **patch)
    except (Reject, ValueRefused):
        assert configuration.describe() == before
        return
    assert json.dumps(configuration.describe())
    assert {name for name, value in configuration.describe().items() if value != before.get(name)} <= set(patch)


def test_changes_at_the_same_time_are_all_merged() -> None:
    configuration = configured()
    numbers = ("minTxsPerBlock", "maxTxsPerBlock", "maxPendingTxCount", "proverTestDelayMs")

    def count_up(name: str) -> None:
        for value in range(1, 201):
            change(configuration, **{name: value})
            assert configuration.describe()[name] == value

    threads = [threading.Thread(target=count_up, args=(name,)) for name in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [configuration[name] for name in numbers] == [200] * len(numbers)
