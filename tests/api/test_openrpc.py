"""The OpenRPC document: it is valid, complete, and true of what was recorded and of what the node answers.

``tests/data/openrpc_meta_schema.json`` is the OpenRPC project's own schema of documents (Apache-2.0).
"""

from __future__ import annotations

import asyncio
import copy
import gzip
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator, FormatChecker
from jsonschema.validators import extend
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7
from tests.serving.fixtures import ServedSets

import fastnode
from fastnode.api.openrpc import document
from fastnode.api.record_schemas import RECORDS
from fastnode.api.schema_language import schema_of
from fastnode.app.ground.documentation import WITHOUT_EXAMPLE
from fastnode.app.ground.method_documentation import all_methods
from fastnode.config.allow_list import AllowedElement
from fastnode.config.config_keys import FIVE, KEYS, ConfigKey
from fastnode.config.configuration import ConfigPatch, ConfigPatchOfFive, NodeConfiguration
from fastnode.config.settings import Settings
from fastnode.errors import ValueRefused
from fastnode.jsonrpc.methods import METHOD_SETS, is_five_or_later
from fastnode.values.namespaces import newer_name
from fastnode.values.refusal import Reject

DATA = Path(__file__).parents[1] / "data"
META_SCHEMA = json.loads((DATA / "openrpc_meta_schema.json").read_text())
#: Address of the schema of schemas in the meta-schema; a document's schemas are those of draft 7.
SCHEMA_OF_SCHEMAS = "https://meta.json-schema.tools"


ADMIN = ("nodeAdmin_", "aztecAdmin_")

FORMATS = FormatChecker()


@FORMATS.checks("uri")
def is_uri(value: object) -> bool:
    """A URI begins with a scheme; what does not refers to something else."""
    return not isinstance(value, str) or re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]+", value) is not None


def recorded() -> list[dict[str, Any]]:
    with gzip.open(DATA / "queries_sample.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def cleaned(value: Any) -> Any:
    """Without what the reference node leaks of its memory into headers."""
    if isinstance(value, dict):
        return {key: cleaned(item) for key, item in value.items() if key != "_cachedHash"}
    return [cleaned(item) for item in value] if isinstance(value, list) else value


def closed(schema: Any) -> Any:
    """The same schema with every key refused that it does not name."""
    if isinstance(schema, dict):
        copied = {key: closed(value) for key, value in schema.items()}
        if "required" in copied and isinstance(copied.get("properties"), dict):
            copied["additionalProperties"] = False
        return copied
    return [closed(item) for item in schema] if isinstance(schema, list) else schema


def kind_that_remembers() -> Any:
    """A class of validators of one document, with which a text is held against a named schema once.

    Answers have the same few fields thousands of times.
    """
    check, fitting = Draft7Validator.VALIDATORS["$ref"], set()

    def refer(validator: Any, target: str, instance: Any, schema: Any) -> Iterator[Any]:
        if not isinstance(instance, str):
            yield from check(validator, target, instance, schema)
        elif (target, instance) not in fitting:
            errors = list(check(validator, target, instance, schema))
            if not errors:
                fitting.add((target, instance))
            yield from errors

    return extend(Draft7Validator, {"$ref": refer})


class Described:
    """A document's methods with their validators.

    Results may have no other members than those that are written down, but for the set ``both``: there some records
    are those of both sets in one.
    """

    def __init__(self, method_set: Any) -> None:
        self.document = document(all_methods(), method_set)
        components = copy.deepcopy(self.document["components"])
        strict = components if method_set == "both" else closed(components)
        self._kind = kind_that_remembers()
        self.results: dict[str, Any] = {}
        self.parameters: dict[str, list[Any]] = {}
        for method in self.document["methods"]:
            self.results[method["name"]] = self._validator(method["result"]["schema"], strict)
            self.parameters[method["name"]] = [
                self._validator(parameter["schema"], self.document["components"]) for parameter in method["params"]
            ]

    def _validator(self, schema: Any, components: Any) -> Any:
        return self._kind({"allOf": [schema], "components": components})

    def flaw_of_result(self, method: str, result: Any) -> str | None:
        errors = [str(error.message)[:200] for error in self.results[method].iter_errors(result)]
        return f"{method}: {errors[0]}" if errors else None


@pytest.fixture(scope="module")
def release() -> Described:
    return Described("release")


# ---- the document -----------------------------------------------------------------------------------


def shown(name: str, method_set: Any) -> str:
    """Name of a method in the document of a set."""
    return newer_name(name) or name if is_five_or_later(method_set) else name


def older(name: str) -> str:
    return name.replace("aztec", "node", 1)


def names_in(method_set: Any) -> set[str]:
    return {shown(method.name, method_set) for method in all_methods() if method.signature(method_set) is not None}


@pytest.mark.parametrize("method_set", METHOD_SETS)
def test_the_document_is_valid_against_the_meta_schema(method_set: Any) -> None:
    assert flaws_of(document(all_methods(), method_set)) == []
    assert flaws_of(document(all_methods(), method_set, url="http://[::1]:8080")) == []


def flaws_of(made: Any) -> list[str]:
    registry: Registry[Any] = Registry().with_resource(
        SCHEMA_OF_SCHEMAS, Resource(contents=Draft7Validator.META_SCHEMA, specification=DRAFT7)
    )
    # One reference points into the schema of schemas, at a key of another draft of it: a reference is a text.
    text = json.dumps(META_SCHEMA).replace(
        json.dumps({"$ref": f"{SCHEMA_OF_SCHEMAS}/#/definitions/JSONSchemaObject/properties/$ref"}),
        json.dumps({"type": "string"}),
    )
    validator = Draft7Validator(json.loads(text), registry=registry, format_checker=FORMATS)
    return [error.message for error in validator.iter_errors(made)]


def test_the_check_against_the_meta_schema_finds_flaws() -> None:
    made = document(all_methods())
    made["methods"][0]["result"]["schema"] = 7
    made["methods"][1]["surprise"] = True
    del made["methods"][2]["params"]
    made["servers"][0]["url"] = "/"
    assert len(flaws_of(made)) == 4


@pytest.mark.parametrize("method_set", METHOD_SETS)
def test_every_schema_is_a_schema_and_every_reference_leads_somewhere(method_set: Any) -> None:
    made = document(all_methods(), method_set)
    known = {f"#/components/{kind}/{name}" for kind, named in made["components"].items() for name in named}

    def references(node: Any) -> set[str]:
        if isinstance(node, list):
            return set().union(*map(references, node)) if node else set()
        if not isinstance(node, dict):
            return set()
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*map(references, node.values())) if node else own

    assert references(made) <= known
    for schema in made["components"]["schemas"].values():
        Draft7Validator.check_schema(schema)
    for method in made["methods"]:
        for described in (*method["params"], method["result"]):
            Draft7Validator.check_schema(described["schema"])


def test_no_schema_refers_to_itself() -> None:
    """Tools that put schemas in the place of their names would never end."""
    schemas = document(all_methods())["components"]["schemas"]
    uses = {
        name: set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(schema))) for name, schema in schemas.items()
    }
    open_names = dict(uses)
    while done := {name for name, used in open_names.items() if not used & open_names.keys()}:
        for name in done:
            del open_names[name]
    assert open_names == {}


def test_every_component_has_its_name_as_its_title() -> None:
    schemas = document(all_methods())["components"]["schemas"]
    assert {name: schema["title"] for name, schema in schemas.items()} == {name: name for name in schemas}


def test_every_method_names_its_errors_each_code_once_and_what_it_is_about() -> None:
    made = document(all_methods())
    components = made["components"]["errors"]
    for method in made["methods"]:
        errors = [
            components[error["$ref"].rpartition("/")[2]] if "$ref" in error else error for error in method["errors"]
        ]
        codes = [error["code"] for error in errors]
        assert len(codes) == len(set(codes))
        assert ({-32603, -32000} <= set(codes), -32602 in codes) == (True, bool(method["params"])), method["name"]
        assert all(tag["name"] not in ("", "node", "nodeAdmin") for tag in method["tags"])
        assert method["tags"]


def test_every_code_that_the_document_promises_is_one_that_the_code_gives() -> None:
    errors = (error for method in document(all_methods())["methods"] for error in method["errors"])
    promised = {code for error in errors if "$ref" not in error for code in error["data"]["code"]["enum"]}
    package = Path(fastnode.__file__).parent
    given = {
        code
        for path in package.rglob("*.py")
        if path.name != "method_errors.py"
        for code in re.findall(r'"([A-Z0-9]+(?:_[A-Z0-9]+)*)"', path.read_text())
    }
    assert promised <= given


def test_methods_of_the_admin_port_have_that_server_and_a_ports_own_document_its_own(served: ServedSets) -> None:
    made = document(all_methods())
    assert [server["url"] for server in made["servers"]] == ["http://127.0.0.1:8080"]
    for method in made["methods"]:
        urls = [server["url"] for server in method.get("servers", made["servers"])]
        assert urls == [f"http://127.0.0.1:{8880 if method['name'].startswith('nodeAdmin_') else 8080}"]
    own = served.client("both").result("rpc.discover")
    public, _ = served.ports("both")
    assert [server["url"] for server in own["servers"]] == [f"http://127.0.0.1:{public}"]
    assert not any("servers" in method for method in own["methods"])


@pytest.mark.parametrize("method_set", METHOD_SETS)
def test_every_schema_has_a_title_of_its_own_so_generated_types_have_names(method_set: Any) -> None:
    """Generators name what has no title by a digest, which changes whenever the content does."""
    made = document(all_methods(), method_set)
    contents = [part for method in made["methods"] for part in (*method["params"], method["result"])]
    titles: dict[str, Any] = {}
    for schema in (*(part["schema"] for part in contents), *made["components"]["schemas"].values()):
        for each in schemas_in(schema):
            assert titles.setdefault(each["title"].lower(), each) == each, each["title"]
    prefix = "aztec" if is_five_or_later(method_set) else "node"
    assert {f"{prefix}getblocksfrom", f"{prefix}getblockslimit"} <= titles.keys()


def schemas_in(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema with those inside, but references."""
    if "$ref" in schema:
        return
    yield schema
    inner = [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    inner += schema["items"] if isinstance(schema.get("items"), list) else []
    inner += [each for key in ("anyOf", "oneOf", "allOf") for each in schema.get(key, ())]
    inner += [each for key in ("properties", "patternProperties") for each in schema.get(key, {}).values()]
    for each in inner:
        yield from schemas_in(each)


def test_parameters_are_named_in_words() -> None:
    methods = document(all_methods())["methods"]
    names = {parameter["name"] for method in methods for parameter in method["params"]}
    assert names >= {"blockParameter", "checkpointParameter"}
    assert not {name for name in names if re.search(r"(?i)param$|^arg|^opts$|^p[0-9]", name)}


def test_every_method_of_a_set_is_in_its_document() -> None:
    for method_set in METHOD_SETS:
        names = [method["name"] for method in document(all_methods(), method_set)["methods"]]
        assert names == sorted(names_in(method_set) - {"rpc.discover"}, key=older)


def test_the_command_prints_the_document() -> None:
    command = [sys.executable, "-m", "fastnode", "openrpc", "--method-set", "release"]
    printed = subprocess.run(command, capture_output=True, check=True).stdout
    assert json.loads(printed) == document(all_methods(), "release")


# ---- what was recorded ------------------------------------------------------------------------------


def test_every_recorded_result_is_as_its_schema_says(release: Described) -> None:
    seen = set()
    flaws = []
    for query in recorded():
        if "result" in query:
            seen.add(query["method"])
            flaw = release.flaw_of_result(query["method"], cleaned(query["result"]))
            if flaw is not None:
                flaws.append(flaw)
    assert flaws == []
    assert len(seen) > 40


def test_every_recorded_parameter_that_was_accepted_is_as_its_schema_says(release: Described) -> None:
    flaws = []
    for query in recorded():
        if "error" in query or any(isinstance(value, dict) and "unknown" in value for value in query["params"]):
            continue
        for validator, value in zip(release.parameters[query["method"]], query["params"], strict=False):
            flaws.extend(f"{query['method']}: {error.message[:200]}" for error in validator.iter_errors(value))
    assert flaws == []


# ---- what the node answers --------------------------------------------------------------------------


@pytest.mark.parametrize("method_set", METHOD_SETS)
def test_every_answer_of_a_node_is_as_its_schema_says(served: ServedSets, method_set: str) -> None:
    client, described = served.client(method_set), Described(method_set)
    flaws, count = [], 0
    for query in recorded()[::3]:
        method = shown(query["method"], method_set)
        if method not in described.results:
            continue
        answer = client.call(method, *query["params"])
        if "error" not in answer:
            count += 1
            flaw = described.flaw_of_result(method, answer["result"])
            if flaw is not None:
                flaws.append(flaw)
    assert flaws == []
    assert count > 100


@pytest.mark.parametrize("method_set", METHOD_SETS)
def test_every_answer_of_the_admin_port_is_as_its_schema_says(served: ServedSets, method_set: str) -> None:
    client, described = served.client(method_set, is_admin=True), Described(method_set)
    configuration = client.call(shown("nodeAdmin_getConfig", method_set))["result"]
    parameters: dict[str, list[Any]] = {
        "nodeAdmin_setConfig": [configuration],
        "fastnode_traceBlock": [63],
    }
    calls = {shown(name, method_set): given for name, given in parameters.items()}
    answered = set()
    for name in described.results:
        required = next(entry for entry in described.document["methods"] if entry["name"] == name)["params"]
        if name not in calls and (not name.startswith(ADMIN) or any(entry["required"] for entry in required)):
            continue
        answer = client.call(name, *calls.get(name, ()))
        if "error" not in answer:
            answered.add(name)
            assert described.flaw_of_result(name, answer["result"]) is None, name
    # Offenses are those of a sentinel, which these nodes do not have.
    expected = {
        "nodeAdmin_getConfig",
        "nodeAdmin_setConfig",
        "fastnode_traceBlock",
        "nodeAdmin_pauseSync",
        "nodeAdmin_resumeSync",
    }
    assert {shown(name, method_set) for name in expected} <= answered


def test_the_configuration_on_a_chain_of_5_x_is_as_clients_of_that_release_require(served: ServedSets) -> None:
    schema = json.loads((DATA / "release-5" / "configuration.json").read_text())
    shown_keys = served.client("5.x", is_admin=True).call("aztecAdmin_getConfig")["result"]
    assert [error.message for error in Draft7Validator(schema).iter_errors(shown_keys)] == []
    assert set(schema["properties"]) == set(FIVE.keys)
    (described,) = Described("5.x").parameters["aztecAdmin_setConfig"]
    assert described.is_valid(shown_keys)


def test_a_key_has_its_name_of_5_x_in_refusals_of_that_release() -> None:
    configuration = NodeConfiguration(Settings(), stand_ins={"l1ChainId": 1, "blockDurationMs": 72_000})
    for key, name in (("signingTimeoutMs", "peerSigningTimeoutMs"), ("l1ChainId", "l1ChainId")):
        with pytest.raises(ValueRefused, match=f"config.{name} "):
            configuration.change({key: 7}, FIVE)
    for name in ("enforceTimeTable", "signingTimeoutMs"):
        with pytest.raises(Reject, match="unknown key"):
            ConfigPatchOfFive().from_json({name: 7})
    configuration.change(ConfigPatchOfFive().from_json(configuration.describe(FIVE)), FIVE)


def examples(method_set: Any) -> list[tuple[str, dict[str, Any]]]:
    """Documents of both ports, with the names of their methods; those that change a node come last."""
    methods = document(all_methods(), method_set)["methods"]
    found = [(method["name"], example) for method in methods for example in method.get("examples", ())]
    return sorted(found, key=lambda row: (row[0].startswith(ADMIN), row[0]))


@pytest.mark.parametrize(
    ("name", "settings"), [("sample chain", {}), ("sample chain, --sentinel-enabled", {"sentinel_enabled": True})]
)
def test_the_examples_are_what_a_node_answers_on_the_sample_chain(
    name: str, settings: dict[str, Any], chain_directory: Path, tmp_path: Path, loop_runner: asyncio.Runner
) -> None:
    served = ServedSets(chain_directory, tmp_path, loop_runner, **settings)
    described = {method_set: Described(method_set) for method_set in METHOD_SETS}
    try:
        for method_set in METHOD_SETS:
            for method, example in examples(method_set):
                if example["name"] != name:
                    continue
                client = served.client(method_set, is_admin=method.startswith(ADMIN))
                answer = client.call(method, *(parameter["value"] for parameter in example["params"]))
                expected = {"jsonrpc": "2.0", "id": 1, "result": example["result"]["value"]}
                assert answer == expected, (method_set, method)
                assert described[method_set].flaw_of_result(method, answer["result"]) is None
    finally:
        served.stop()


@pytest.mark.parametrize("method_set", METHOD_SETS)
def test_every_method_has_an_example_or_the_page_says_why_not(method_set: Any) -> None:
    named = {name for name, _ in examples(method_set)}
    served = names_in(method_set)
    assert served - named == served & {shown(name, method_set) for name in WITHOUT_EXAMPLE}
    assert {example["name"] for _, example in examples(method_set)} == {
        "sample chain",
        "sample chain, --sentinel-enabled",
    }


def test_a_port_describes_its_own_methods(served: ServedSets) -> None:
    client = served.client("both")
    names = {method["name"] for method in client.result("rpc.discover")["methods"]}
    assert names == {method.name for method in client.engine.table} - {"rpc.discover"}


# ---- the notation -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("Fr", {"$ref": "#/components/schemas/Fr"}),
        ("null[][]", {"type": "array", "items": {"type": "array", "items": {"type": "null"}}}),
        ('"a"|"b"', {"enum": ["a", "b"]}),
        ('(null|"a")[]', {"type": "array", "items": {"anyOf": [{"type": "null"}, {"const": "a"}]}}),
        (
            "{a: null, b?: null}",
            {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "required": ["a"]},
        ),
        ("[null, null]", {"type": "array", "items": [{"type": "null"}] * 2, "minItems": 2, "maxItems": 2}),
    ],
)
def test_a_type_becomes_a_schema(text: str, schema: Any) -> None:
    assert schema_of(text) == schema


@pytest.mark.parametrize("text", ["", "Fr]", "{a}", "[Fr", "(Fr", "Fr|", "a b", "Fr<x>", "{a: Fr b: Fr}"])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no type"):
        schema_of(text)


def test_every_record_refuses_an_empty_object_or_has_only_optional_members(release: Described) -> None:
    for name in RECORDS:
        schema = release.document["components"]["schemas"][name]
        assert schema["required"] or name == "AllowedElement", name


# ---- the configuration ------------------------------------------------------------------------------------


def shown_configuration(**values: Any) -> dict[str, Any]:
    return NodeConfiguration(Settings(), values).describe()


def test_a_shown_configuration_is_as_its_schema_says(release: Described) -> None:
    element = AllowedElement(address=b"\1" * 32, selector=b"\2" * 4, calldata_length=3, only_self=True)
    for values in (
        {},
        {"txPublicSetupAllowListExtend": (element,), "coinbase": "0x" + "0a" * 20, "nodeId": "a", "maxL2BlockGas": 5},
        {"slashInactivityTargetPercentage": 1, "validatorAddresses": ("0x" + "0b" * 20,)},
    ):
        assert release.flaw_of_result("nodeAdmin_getConfig", shown_configuration(**values)) is None


@pytest.mark.parametrize(
    "change",
    [
        {"minTxsPerBlock": "1"},
        {"slashUnknownPenalty": 10},
        {"databaseUrl": "postgresql://user:password@host/name"},
        {"unknown": 1},
        {"slashInactivityTargetPercentage": 0},
        {"validatorAddresses": ["0x" + "0B" * 20]},
    ],
)
def test_what_no_node_shows_is_not_as_the_schema_says(release: Described, change: dict[str, Any]) -> None:
    assert release.flaw_of_result("nodeAdmin_getConfig", shown_configuration() | change) is not None


def test_a_configuration_lacks_no_key_that_has_a_value(release: Described) -> None:
    for name in shown_configuration():
        shown = shown_configuration()
        del shown[name]
        assert release.flaw_of_result("nodeAdmin_getConfig", shown) is not None, name


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_set_config_takes_the_same_values_of_a_key_as_its_schema(release: Described, key: ConfigKey) -> None:
    (schema,) = release.parameters["nodeAdmin_setConfig"]
    for value in (0, 1, -1, 0.5, 2**80, "1", "x", "", True, [], [1], ["0x" + "Ab" * 20], "0x" + "aB" * 20, None, {}):
        try:
            ConfigPatch().from_json({key.name: value})
        except Reject:
            is_taken = False
        else:
            is_taken = True
        assert schema.is_valid({key.name: value}) == is_taken, value
