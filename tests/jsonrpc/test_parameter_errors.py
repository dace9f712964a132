"""Wrong parameters for every method of a whole node, made from its own table.

A new method is covered as soon as it is in the table.  A new parameter type needs a right value in
``RIGHT`` and, if it has limits of its own, wrong ones in ``beyond_limits``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.api import chain_parameters as chain
from fastnode.api.chain import METHODS
from fastnode.api.tagged_logs import LogsQueryParameter
from fastnode.errors import InvalidParams
from fastnode.jsonrpc.methods import METHOD_SETS, BoundMethod, MethodTable
from fastnode.values.arrays import ArrayOf
from fastnode.values.choices import Choice, NumberChoice
from fastnode.values.numbers import Integer
from fastnode.values.refusal import Reject
from fastnode.values.texts import HexText, Text

INVALID_PARAMS = -32602
MODULUS = 21888242871839275222246405745257275088548364400416034343698204186575808495617
HASH = "0x" + "12" * 32
MESSAGE_LENGTH_MAX = 600

#: A value of each parameter type that is accepted, by the name of its class or of a class above it.
RIGHT: dict[str, Any] = {
    "TraceOptionsValue": {"opcodes": {"first": 0, "limit": 10}, "gasProfile": True},
    "Field": HASH,
    "FullHash": HASH,
    "Boolean": True,
    "Options": {},
    "Text": "x",
    "ReleaseBlock": 1,
    "DevelopmentBlock": 1,
    "ArchiveBlock": {"archive": HASH},
    "CheckpointParameter": 1,
    "CheckpointsQuery": {"from": 1, "limit": 1},
    "AnyCheckpointsQuery": {"fromSlot": 1, "limit": 1, "reverse": True},
    "LogsQueryParameter": {"tags": [HASH]},
    "OverridesParameter": {},
    "LogFilterParameter": {},
    "TagList": [HASH],
    "PendingLimit": 1,
    "TxParameter": {},
    "ArtifactParameter": {},
    "FunctionSignature": "transfer(Field)",
}
#: There is no right value known for the type: its methods are left out.
UNKNOWN = object()

#: Wrong for nearly every type; a value that a type accepts is left out for it.
# fmt: off
ODD_VALUES: list[Any] = [
    None, True, False, -1, 1.5, 1e30, -(2**63), 2**64 - 1,
    "", " ", "x", "latest", "0x", "0xzz", "-1", "1.5", "\ud800", "0x" + "f" * 64, hex(MODULUS), str(MODULUS),
    "9" * 100_000, "0x" + "0" * 100_000, "x" * 100_000, "\0" * 100,
    [], [[]], [1] * 1_000,
    {}, {"a": 1}, {"number": -1}, {"number": 1, "hash": HASH}, {"tag": "latest"}, {"slot": "x"},
    {"from": 1}, {"from": 1, "limit": 0}, {"epoch": -1}, {"epoch": 1, "x": 1},
    {"includeBlocks": 1}, {"includeTransactions": "true"}, {"onlyCheckpointed": None},
    {"fromSlot": 1, "limit": 1, "x": 1}, {"tags": "x"}, {"tags": [{}]}, {"publicStorage": {}}, {"contracts": []},
    {"txHash": "x"}, {"tag": "x"}, {"fromBlock": None}, {"toBlock": 1.5}, {"afterLog": {}}, {"contractAddress": "0x1"},
]
# fmt: on


def right_value(kind: Any) -> Any:
    if isinstance(kind, Integer):
        return kind.minimum or 0
    if isinstance(kind, Choice):
        return kind.choices[0]
    if isinstance(kind, NumberChoice):
        return next(iter(kind.choices))
    if isinstance(kind, HexText):
        return "0x" + "12" * kind.byte_count
    if isinstance(kind, ArrayOf):
        element = right_value(kind.element)
        return UNKNOWN if element is UNKNOWN else [element]
    if isinstance(kind, LogsQueryParameter) and kind.is_public:
        return {"contractAddress": HASH, **RIGHT["LogsQueryParameter"]}
    return next((RIGHT[above.__name__] for above in type(kind).__mro__ if above.__name__ in RIGHT), UNKNOWN)


def beyond_limits(kind: Any) -> Iterator[tuple[Any, str]]:
    """Values just outside of a limit, and how the error names it."""
    if isinstance(kind, Integer):
        for value, bound in ((kind.minimum, -1), (kind.maximum, 1)):
            if value is not None:
                yield value + bound, str(value)
    if isinstance(kind, Text):
        yield "x" * (kind.length_max + 1), f"to {kind.length_max} characters"
    if isinstance(kind, ArrayOf):
        yield [right_value(kind.element)] * (kind.length_max + 1), f"at most {kind.length_max}"
        for value, limit in beyond_limits(kind.element):
            yield [value], limit
    if type(kind).__name__ == "TagList":
        yield [HASH] * (kind.length_max + 1), f"at most {kind.length_max}"
    if type(kind).__name__ == "PendingLimit":
        yield 0, "from 1"
        yield 51, "to 50"
    if isinstance(kind, chain.CheckpointsQuery | chain.AnyCheckpointsQuery):
        yield {"from": 1, "limit": 0}, "at least 1"
        yield {"from": -1, "limit": 1}, "at least 0"
    if isinstance(kind, chain.AnyCheckpointsQuery):
        yield {"fromSlot": 1, "limit": 0}, "at least 1"
        yield {"fromSlot": -1, "limit": 1}, "at least 0"
    if isinstance(kind, LogsQueryParameter):
        right = right_value(kind)
        yield right | {"tags": [HASH] * (kind.tags_max + 1)}, f"at most {kind.tags_max}"
        yield right | {"tags": []}, "an array of 1"
        yield right | {"limitPerTag": 21}, "to 20"
        yield right | {"txHash": HASH, "toBlock": 2}, "not both"
        cursor = {"blockNumber": 1, "txIndexWithinBlock": -1, "logIndexWithinTx": 0}
        yield right | {"tags": [{"tag": HASH, "afterLog": cursor}]}, "at least 0"
    if isinstance(kind, chain.ReleaseBlock | chain.DevelopmentBlock):
        yield -1, "at least 0"


def is_rejected(kind: Any, value: Any) -> bool:
    try:
        kind.from_json(value)
    except Reject:
        return True
    return False


@pytest.fixture(params=METHOD_SETS)
def client(served: Any, request: pytest.FixtureRequest) -> Any:
    """A client of a whole node in each set."""
    return served.client(request.param)


def methods_with_right_values(client: Any) -> Iterator[tuple[BoundMethod, list[Any]]]:
    """Methods whose parameter types are known here."""
    for method in client.engine.table:
        values = [right_value(parameter.type) for parameter in method.parameters]
        if UNKNOWN not in values:
            yield method, values


def required_count(method: BoundMethod) -> int:
    return sum(not parameter.optional for parameter in method.parameters)


def assert_names(client: Any, method: BoundMethod, values: list[Any], index: int) -> str:
    """The call is refused, and the error says which parameter is to blame; gives the text."""
    body = json.dumps({"id": 1, "method": method.name, "params": values}).encode()
    answer = orjson.loads(client.send(body).text)
    where = f"{method.name} {str(values)[:200]}"
    assert "error" in answer, where
    error = answer["error"]
    assert error["code"] == INVALID_PARAMS, (where, error)
    message: str = error["message"]
    name = method.parameters[index].name
    assert message.startswith(f"Invalid params: {name}"), (where, message)
    assert f"(parameter {index + 1})" in message, (where, message)
    assert len(message) <= MESSAGE_LENGTH_MAX, where
    assert message.isprintable(), where
    return message


def test_every_method_is_examined(client: Any) -> None:
    examined = {method.name for method, _ in methods_with_right_values(client)}
    assert examined == {method.name for method in client.engine.table}


def test_the_right_values_are_right(client: Any) -> None:
    for method, values in methods_with_right_values(client):
        assert len(method.decode(values)[0]) == len(values), method.name


def test_a_missing_parameter_is_named(client: Any) -> None:
    for method, values in methods_with_right_values(client):
        for count in range(required_count(method)):
            assert assert_names(client, method, values[:count], count).endswith("is required")


def test_null_is_no_value_for_a_required_parameter(client: Any) -> None:
    for method, values in methods_with_right_values(client):
        for index in range(required_count(method)):
            assert_names(client, method, [*values[:index], None, *values[index + 1 :]], index)


def test_null_is_an_optional_parameter_that_is_not_given(client: Any) -> None:
    for method, values in methods_with_right_values(client):
        required = required_count(method)
        nulls = [None] * (len(values) - required)
        assert method.decode(values[:required] + nulls) == method.decode(values[:required]), method.name


def test_a_parameter_too_many_is_refused_with_the_number_that_is_allowed(client: Any) -> None:
    for method, values in methods_with_right_values(client):
        count = len(values)
        allowed = "no parameters" if count == 0 else f"at most {count} parameter{'s' if count > 1 else ''}"
        error = client.error(method.name, *values, 1)
        assert error == {
            "code": INVALID_PARAMS,
            "message": f"Invalid params: {method.name} takes {allowed}, got {count + 1}",
        }
        assert client.error(method.name, *values, *[1] * 1_000)["code"] == INVALID_PARAMS


def test_a_value_of_another_type_is_refused_and_its_parameter_named(client: Any) -> None:
    for method, values in methods_with_right_values(client):
        for index, parameter in enumerate(method.parameters):
            wrong = [value for value in ODD_VALUES if is_rejected(parameter.type, value)]
            assert len(wrong) > 10
            for value in wrong:
                if value is None and parameter.optional:
                    continue
                assert_names(client, method, [*values[:index], value, *values[index + 1 :]], index)


def test_a_value_beyond_a_limit_is_refused_and_the_limit_named(client: Any) -> None:
    examined = 0
    for method, values in methods_with_right_values(client):
        for index, parameter in enumerate(method.parameters):
            for value, limit in beyond_limits(parameter.type):
                message = assert_names(client, method, [*values[:index], value, *values[index + 1 :]], index)
                assert limit in message, message
                examined += 1
    assert examined > 5


def test_parameters_by_name_are_refused(client: Any) -> None:
    for method in client.engine.table:
        answer = orjson.loads(client.send(orjson.dumps({"id": 1, "method": method.name, "params": {"a": 1}})).text)
        assert answer["error"]["code"] == INVALID_PARAMS
        assert "params must be an array" in answer["error"]["message"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(
            st.sampled_from(["number", "hash", "tag", "from", "limit", "epoch", "x"]), children, max_size=3
        )
    ),
    max_leaves=6,
)
every_method = [method for name in METHOD_SETS for method in MethodTable(METHODS, name)]


@given(method=st.sampled_from(every_method), values=st.lists(json_values, max_size=4))
def test_decoding_knows_no_other_end_than_values_or_a_refusal(method: BoundMethod, values: list[Any]) -> None:
    try:
        arguments, _ = method.decode(values)
    except InvalidParams as error:
        message = error.message
    else:
        message = ""
        assert len(arguments) == len(method.parameters)
    assert len(message) <= MESSAGE_LENGTH_MAX
