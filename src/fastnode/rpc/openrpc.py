"""The OpenRPC document of a method table: every method with the schemas of its parameters and of its result.

``rpc.discover`` answers it, ``fastnode openrpc`` prints it.  Examples are calls of the sample chain, kept in
``data/method_examples.json``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

import orjson

from fastnode import __version__
from fastnode.rpc.methods import Call, Method, MethodSet, common
from fastnode.rpc.parameter_schemas import parameter_schema, scalars
from fastnode.rpc.record_schemas import components
from fastnode.rpc.schema_language import Schema, schema_of

__all__ = ["DISCOVER", "discovery", "document"]

OPENRPC_VERSION: Final = "1.3.2"
DISCOVER: Final = "rpc.discover"

_TITLE: Final = "fastnode"
_DESCRIPTION: Final = (
    "Parameters go by position. An answer without a result means that nothing was found. A wrong parameter is answered "
    "with the error -32602, which names it."
)


def document(methods: Sequence[Method], method_set: MethodSet = "both") -> dict[str, Any]:
    """The document of the methods that are in a method set."""
    served = [method for method in methods if method.signature(method_set) is not None]
    return {
        "openrpc": OPENRPC_VERSION,
        "info": {
            "title": _TITLE,
            "version": __version__,
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0"},
        },
        "methods": [_method(method, method_set) for method in sorted(served, key=lambda method: method.name)],
        "components": {"schemas": {**components(), **scalars()}},
    }


def discovery(methods: Iterable[Method]) -> Method:
    """The method that answers the document of ``methods`` and itself."""
    described = list(methods)

    @cache
    def rendered(method_set: MethodSet) -> bytes:
        return orjson.dumps(document([*described, itself], method_set))

    def discover(call: Call) -> bytes:
        return rendered(call.method_set)

    itself = Method(
        name=DISCOVER,
        summary="This interface as an OpenRPC document.",
        handler=discover,
        in_thread=True,
        **common("any"),
    )
    return itself


def _method(method: Method, method_set: MethodSet) -> dict[str, Any]:
    signature = method.signature(method_set)
    assert signature is not None
    described: dict[str, Any] = {
        "name": method.name,
        "summary": method.summary,
        "paramStructure": "by-position",
        "params": [
            {
                "name": parameter.name,
                "required": not parameter.optional,
                "schema": _or_null(parameter_schema(parameter.type), nullable=parameter.optional),
            }
            for parameter in signature.parameters
        ],
        "result": {"name": "result", "required": not signature.may_be_absent, "schema": _result(method, method_set)},
    }
    example = _examples().get(method.name)
    if example is not None:
        described["examples"] = [_pairing(example, [parameter.name for parameter in signature.parameters])]
    return described


def _result(method: Method, method_set: MethodSet) -> Schema:
    """With both sets at one address, a call in the form of one set gets that set's record."""
    signatures = (method.release, method.development) if method_set == "both" else (method.signature(method_set),)
    types = dict.fromkeys(signature.result for signature in signatures if signature is not None)
    return schema_of("|".join(types))


def _or_null(schema: Schema, *, nullable: bool) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]} if nullable else schema


def _pairing(example: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {
        "name": "sample chain",
        "params": [{"name": name, "value": value} for name, value in zip(names, example["params"], strict=False)],
        "result": {"name": "result", "value": example["result"]},
    }


@cache
def _examples() -> dict[str, dict[str, Any]]:
    """By method: ``params`` and ``result``."""
    text = resources.files("fastnode").joinpath("data/method_examples.json").read_bytes()
    examples: dict[str, dict[str, Any]] = orjson.loads(text)
    return examples
