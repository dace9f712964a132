"""Objects among the parameters of all methods: each rejects a member that it does not know, with the nearest name, and
its schema says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from jsonschema import Draft7Validator
from tests.conftest import NodeProcess

from fastnode.api.local_network import methods as local_methods
from fastnode.app.ground.method_documentation import all_methods
from fastnode.jsonrpc.methods import METHOD_SETS, Method, Parameter
from fastnode.values.refusal import Reject

#: Parameters whose form is another program's: what it adds is none of ours.
FORMS_OF_OTHERS = {"tx": "a transaction, as wallets send it", "artifact": "what the compiler writes"}
#: Values to try where a schema says nothing but a pattern, in this order.
VALUES = ("0x" + "01" * 32, "0x" + "01" * 20, "0x" + "01" * 4, "0x01", "AAAA", "chain", "1", 1, True, {}, [])
MISSPELT = "misspelt"


class Case(NamedTuple):
    """An object somewhere in a parameter: ``value`` is taken, and has the object at ``path``."""

    method: str
    parameter: Parameter
    value: Any
    path: tuple[str | int, ...]
    is_closed: bool

    @property
    def name(self) -> str:
        return f"{self.method} {self.parameter.name} {'.'.join(map(str, self.path))}".rstrip()

    def with_misspelt(self) -> Any:
        return _changed(self.value, self.path)


def _changed(value: Any, path: tuple[str | int, ...]) -> Any:
    if not path:
        return value | {MISSPELT: 1}
    if isinstance(value, list):
        return [_changed(value[0], path[1:]), *value[1:]]
    return value | {path[0]: _changed(value[path[0]], path[1:])}


class Maker:
    """Makes values of a schema, each with the places of the objects in it."""

    def __init__(self, definitions: Any) -> None:
        self._components = {"schemas": dict(definitions)}

    def is_valid(self, schema: Any, value: Any) -> bool:
        return Draft7Validator({"allOf": [schema], "components": self._components}).is_valid(value)

    def resolved(self, schema: Any) -> Any:
        while "$ref" in schema:
            schema = self._components["schemas"][schema["$ref"].rpartition("/")[2]]
        return schema

    def alternatives(self, schema: Any) -> list[Any]:
        schema = self.resolved(schema)
        found = [each for key in ("anyOf", "oneOf") for each in schema.get(key, ())]
        return [leaf for each in found for leaf in self.alternatives(each)] if found else [schema]

    def least(self, schema: Any) -> Any:
        """The smallest value of a schema."""
        for each in self.alternatives(schema):
            if "const" in each or "enum" in each:
                return each.get("const", each.get("enum", [None])[0])
            if each.get("type") == "object" and "properties" in each:
                names = each.get("required") or list(each["properties"])[: each.get("minProperties", 0)]
                return {name: self.least(each["properties"][name]) for name in names}
            if each.get("type") == "array" and each.get("minItems", 0):
                return [self.least(each["items"])] * each["minItems"]
            for value in VALUES:
                if self.is_valid(each, value):
                    return value
        raise AssertionError(f"no value is known for {schema}")

    def objects(self, schema: Any) -> Iterator[tuple[Any, tuple[str | int, ...], bool]]:
        """Each object in the values of a schema: a value that has it, where it is there, and whether it is closed."""
        for each in self.alternatives(schema):
            if each.get("type") == "array" and "items" in each:
                for value, path, is_closed in self.objects(each["items"]):
                    yield [value], (0, *path), is_closed
            if each.get("type") != "object" or "properties" not in each:
                continue
            least = self.least(each)
            yield least, (), each.get("additionalProperties") is False
            for name, member in each["properties"].items():
                for value, path, is_closed in self.objects(member):
                    whole = {name: value} if each.get("maxProperties") == 1 else least | {name: value}
                    yield whole, (name, *path), is_closed


def every_method() -> list[Method]:
    nothing = cast(Any, None)
    return [*all_methods(), *local_methods(nothing, nothing, nothing)]


def every_case() -> Iterator[Case]:
    for method in every_method():
        parameters = {
            id(parameter.type): parameter
            for name in METHOD_SETS
            if (signature := method.signature(cast(Any, name))) is not None
            for parameter in signature.parameters
        }
        for parameter in parameters.values():
            if parameter.name in FORMS_OF_OTHERS:
                continue
            maker = Maker(parameter.type.definitions())
            for value, path, is_closed in maker.objects(parameter.type.schema()):
                yield Case(method.name, parameter, value, path, is_closed)


CASES = list(every_case())


def test_the_cases_reach_every_method_that_takes_an_object() -> None:
    reached = {case.method for case in CASES}
    assert {"fastnode_getPublicEvents", "fastnode_traceBlock", "fastnode_reset", "node_getPublicLogs"} <= reached
    assert {".".join(map(str, case.path)) for case in CASES if case.method == "fastnode_reset"} == {
        "",
        "fork",
        "forking",
    }
    taken = {parameter.name for method in every_method() for parameter in _parameters(method)}
    assert set(FORMS_OF_OTHERS) <= taken


def _parameters(method: Method) -> tuple[Parameter, ...]:
    signature = method.signature("both")
    return () if signature is None else signature.parameters


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_misspelt_member_is_rejected_everywhere(case: Case) -> None:
    assert case.is_closed
    case.parameter.type.from_json(case.value)
    with pytest.raises(Reject):
        case.parameter.type.from_json(case.with_misspelt())


def test_a_node_refuses_misspelt_members_and_names_them(
    start_node: Callable[..., NodeProcess], short_chain: Path
) -> None:
    node = start_node("--chain-file", short_chain, "--public-traces").wait_until_serving()
    for name in ("fastnode_getPublicEvents", "fastnode_traceBlock", "node_getPublicLogs", "node_getBlock"):
        method = next(method for method in every_method() if method.name == name)
        *before, parameter = _parameters(method)
        error = node.call(name, *(1 for _ in before), {MISSPELT: 1})["error"]
        assert error["code"] == -32602
        assert f'{parameter.name} (parameter {len(before) + 1}) has no member "{MISSPELT}", only ' in error["message"]
    after = {"blockNumber": 1, "blockHash": VALUES[0], "txHash": VALUES[0], "txIndex": 0, "logIndex": 0}
    error = node.call("fastnode_getPublicEvents", {"afterLog": after | {MISSPELT: 1}})["error"]
    assert "afterLog" in error["message"]
    assert f'has no member "{MISSPELT}"' in error["message"]
    assert node.call("fastnode_getPublicEvents", {"fromBlock": 1})["result"]["maxLogsHit"] is False
    error = node.call("node_getCheckpoints", 1, 1, {"includeBlock": True})["error"]
    assert error["message"].endswith("(did you mean includeBlocks?)")
    error = node.call("node_getBlock", {"numbr": 1})["error"]
    assert error["message"].endswith('has no member "numbr", only number, hash, archive, tag (did you mean number?)')
    assert node.stop() == 0
