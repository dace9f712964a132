"""The OpenRPC document of a method table: every method with the schemas of its parameters and of its result.

``rpc.discover`` answers it, ``fastnode openrpc`` prints it.  It is not in the document itself: the prefix ``rpc.`` is
JSON-RPC's own, and it would not be a valid method name in generated clients.

Examples are calls of a node with the sample chain and default settings, and what it answers.  They are kept by method
in ``data/method_examples.json``, each with ``params`` and the ``result``, if there is one; ``sets`` are the method
sets that answer so, where not all do, and ``needs`` is a flag that the node was started with.  ``$nodeVersion`` stands
for the version of the sample chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

import orjson

from fastnode import __version__
from fastnode.api.discovery import PUBLIC_URL
from fastnode.api.method_errors import error_components, errors_of
from fastnode.api.record_schemas import components
from fastnode.api.schema_language import schema_of
from fastnode.api.schema_titles import pascal, titled
from fastnode.jsonrpc.methods import METHOD_SETS, Method, MethodSet, is_five_or_later
from fastnode.protocol.releases import FOUR
from fastnode.values.namespaces import newer_name
from fastnode.values.schemas import Schema
from fastnode.values.value_type import definitions_of

__all__ = ["document"]

OPENRPC_VERSION: Final = "1.2.6"

_TITLE: Final = "fastnode"
_DESCRIPTION: Final = (
    "Parameters go by position. The result is {absent} if nothing is found, and of methods that return nothing. "
    "A wrong parameter is rejected with the error -32602, which names it."
)


_ADMIN_PREFIXES: Final = ("nodeAdmin_", "aztecAdmin_")
_RESERVED_PREFIX: Final = "rpc."
_PUBLIC_SERVER: Final = {"name": "public", "summary": "The public port.", "url": PUBLIC_URL}
_ADMIN_SERVER: Final = {
    "name": "admin",
    "summary": "The admin port; it asks for a key in x-api-key or Authorization: Bearer.",
    "url": "http://127.0.0.1:8880",
}

#: Subjects of methods (OpenRPC tags) by the module that answers them; the others get the name of their namespace.
_TAGS: Final = {
    "admin": "configuration",
    "block_text": "chain",
    "blocks": "chain",
    "chain": "chain",
    "checkpoints": "chain",
    "contracts": "contracts",
    "discovery": "interface",
    "fastnode": "fastnode",
    "logs": "logs",
    "node_facts": "chain",
    "outbox_witness": "state",
    "peers": "network",
    "receipts": "chain",
    "rollup": "chain",
    "sequencer": "sequencing",
    "simulation": "simulation",
    "slashing": "slashing",
    "snapshots": "snapshots",
    "state": "state",
    "state_answers": "state",
    "sync": "synchronization",
    "tagged_logs": "logs",
    "txs": "transactions",
    "upstream": "network",
}


def document(
    methods: Sequence[Method], method_set: MethodSet = "both", *, url: str | None = None, omits_absent: bool = False
) -> dict[str, Any]:
    """The document of the methods that are in a method set; with ``url``, as the port that listens there gives it.

    ``omits_absent``: answers with an absent result have no member ``result``; else it is null.
    """
    offered = [method for method in methods if not method.name.startswith(_RESERVED_PREFIX)]
    served = [method for method in offered if method.signature(method_set) is not None]
    described = [
        _method(method, method_set, omits_absent=omits_absent)
        for method in sorted(served, key=lambda method: method.name)
    ]
    names = {method.name for method in served}
    replaced = {_shown(method.name, method_set) for method in served if method.replaced_by in names}
    if url is None:
        for method in described:
            if method["name"].startswith(_ADMIN_PREFIXES):
                method["servers"] = [_ADMIN_SERVER]
    for method in described:
        if method["name"] in replaced:
            method["deprecated"] = True
        whole = pascal(method["name"])
        for content in (*method["params"], method["result"]):
            content["schema"] = titled(content["schema"], whole + pascal(content["name"]))
    schemas = {**components(), **_parameter_components(served, method_set)}
    return {
        "openrpc": OPENRPC_VERSION,
        "info": {
            "title": _TITLE,
            "version": __version__,
            "description": _DESCRIPTION.format(absent="absent" if omits_absent else "null"),
            "license": {"name": "Apache-2.0"},
        },
        "servers": [dict(_PUBLIC_SERVER) if url is None else {"name": "this port", "url": url}],
        "methods": described,
        "components": {
            "schemas": {name: titled(schema, schema["title"]) for name, schema in schemas.items()},
            "errors": error_components(),
        },
    }


def _parameter_components(methods: Iterable[Method], method_set: MethodSet) -> dict[str, Schema]:
    """The named schemas that parameters refer to, beside records."""
    signatures = [signature for method in methods if (signature := method.signature(method_set)) is not None]
    named = definitions_of(parameter.type for signature in signatures for parameter in signature.parameters)
    return {name: {"title": name, **named[name]} for name in sorted(named)}


def _method(method: Method, method_set: MethodSet, *, omits_absent: bool) -> dict[str, Any]:
    signature = method.signature(method_set)
    assert signature is not None
    is_nullable = signature.may_be_absent and not omits_absent
    described: dict[str, Any] = {
        "name": _shown(method.name, method_set),
        "summary": method.summary,
        "tags": [{"name": _tag(method, method_set)}],
        "paramStructure": "by-position",
        "params": [
            {
                "name": parameter.name,
                "required": not parameter.optional,
                "schema": _or_null(parameter.type.schema(), nullable=parameter.optional),
            }
            for parameter in signature.parameters
        ],
        "result": {
            "name": "result",
            "required": is_nullable or not signature.may_be_absent,
            "schema": _or_null(_result(method, method_set), nullable=is_nullable and signature.result != "void"),
        },
        "errors": errors_of(method.name, takes_parameters=bool(signature.parameters)),
    }
    names = [parameter.name for parameter in signature.parameters]
    examples = [_pairing(example, names, omits_absent=omits_absent) for example in _examples(method.name, method_set)]
    return described | ({"examples": examples} if examples else {})


def _shown(name: str, method_set: MethodSet) -> str:
    """Name of a method as clients of the set call it."""
    return (newer_name(name) or name) if is_five_or_later(method_set) else name


def _tag(method: Method, method_set: MethodSet) -> str:
    read = method.read_in(method_set) or method.handler
    # Only the class of a kernel's function knows the module.
    module = (getattr(read, "__module__", None) or type(read).__module__).rpartition(".")[2]
    return _TAGS.get(module) or method.name.partition("_")[0]


def _result(method: Method, method_set: MethodSet) -> Schema:
    """With both sets at one address, a call in the form of one set gets that set's record."""
    signatures = (method.release, method.development) if method_set == "both" else (method.signature(method_set),)
    types = dict.fromkeys(signature.result for signature in signatures if signature is not None)
    return schema_of("|".join(types))


def _or_null(schema: Schema, *, nullable: bool) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]} if nullable else schema


def _pairing(example: dict[str, Any], names: Sequence[str], *, omits_absent: bool) -> dict[str, Any]:
    result = {"name": "result", "value": example.get("result")}
    if "result" not in example and omits_absent:
        # A pairing without a result would be one of a notification.
        result["description"] = "The answer has no result."
    return {
        "name": f"sample chain, {example['needs']}" if "needs" in example else "sample chain",
        "params": [{"name": name, "value": value} for name, value in zip(names, example["params"], strict=False)],
        "result": result,
    }


def _examples(method: str, method_set: MethodSet) -> list[dict[str, Any]]:
    # A set of a later release answers as that of 5.x does.
    names = {method_set, "5.x"} if is_five_or_later(method_set) else {method_set}
    return [example for example in _all_examples().get(method, ()) if names & set(example.get("sets", METHOD_SETS))]


@cache
def _all_examples() -> dict[str, list[dict[str, Any]]]:
    text = resources.files("fastnode").joinpath("data/method_examples.json").read_bytes()
    version = orjson.dumps(FOUR.usual_version)
    examples: dict[str, list[dict[str, Any]]] = orjson.loads(text.replace(b'"$nodeVersion"', version))
    return examples
