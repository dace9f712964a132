"""JSON schemas of what parameters accept."""

from __future__ import annotations

from typing import Final

from fastnode.api.chain_parameters import CHAIN_TIPS, LATEST, RELEASE_BLOCK
from fastnode.api.schema_language import Schema, reference
from fastnode.jsonrpc.parameters import ArrayOf, Boolean, Choice, Integer, NumberChoice, Options, ParameterType, Text

__all__ = ["parameter_schema", "scalars"]

_TAGS: Final[Schema] = {"type": "array", "items": reference("FrInput")}
_NATURAL: Final[Schema] = {
    "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^\\s*[0-9]+\\s*$"}]
}
_ANY_NUMBER: Final[Schema] = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
_TIP: Final[Schema] = {"enum": list(CHAIN_TIPS)}


def _one_key(**keys: Schema) -> Schema:
    """An object with exactly one of the keys."""
    return {
        "type": "object",
        "properties": dict(keys),
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }


#: What parameters accept that are written in more than one way.
SCALARS: Final[dict[str, Schema]] = {
    "FrInput": {
        "type": "string",
        "pattern": "^(0[xX][0-9a-fA-F]{1,64}|[0-9]+)$",
        "description": "A field element: 0x and 1 to 64 hex digits, or decimal digits.",
    },
    "HashInput": {"type": "string", "pattern": "^(0[xX])?[0-9a-fA-F]{64}$", "description": "All 64 hex digits."},
    "LogIdInput": {
        "type": "object",
        "properties": {
            "blockNumber": _NATURAL,
            "blockHash": reference("FrInput"),
            "txHash": reference("HashInput"),
            "txIndex": _NATURAL,
            "logIndex": _NATURAL,
        },
        "required": ["blockNumber", "blockHash", "txHash", "txIndex", "logIndex"],
    },
    "LogFilter": {
        "type": "object",
        "properties": {
            "fromBlock": _ANY_NUMBER,
            "toBlock": {**_ANY_NUMBER, "description": "Exclusive."},
            "txHash": reference("HashInput"),
            "afterLog": reference("LogIdInput"),
            "contractAddress": reference("HashInput"),
            "tag": reference("FrInput"),
        },
    },
    "ReleaseBlockParam": {"anyOf": [_NATURAL, reference("FrInput"), {"const": LATEST}]},
    "BlockParam": {
        "anyOf": [
            _NATURAL,
            reference("FrInput"),
            {"enum": [LATEST, *CHAIN_TIPS]},
            _one_key(number=_NATURAL, hash=reference("FrInput"), archive=reference("FrInput"), tag=_TIP),
        ]
    },
    "CheckpointParameter": {"anyOf": [_NATURAL, _TIP, _one_key(number=_NATURAL, slot=_NATURAL)]},
    "CheckpointsQuery": {
        "anyOf": [
            {
                "type": "object",
                "properties": {"from": _NATURAL, "limit": {"type": "integer", "minimum": 1}},
                "required": ["from", "limit"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"epoch": _NATURAL},
                "required": ["epoch"],
                "additionalProperties": False,
            },
        ]
    },
}

#: Types that are written down once, by their names.
_NAMED: Final[dict[str, Schema]] = {
    "Fr": reference("FrInput"),
    "BlockHash": reference("FrInput"),
    "TxHash": reference("HashInput"),
    "AztecAddress": reference("HashInput"),
    "EthAddress": {"type": "string", "pattern": "^(0[xX])?[0-9a-fA-F]{40}$"},
    "Tag[]": _TAGS,
    "SiloedTag[]": _TAGS,
    "LogFilter": reference("LogFilter"),
    "CheckpointParameter": reference("CheckpointParameter"),
    "CheckpointsQuery": reference("CheckpointsQuery"),
    "Tx": reference("Tx"),
    "Partial<AztecNodeAdminConfig>": reference("PartialAztecNodeAdminConfig"),
    "string": {"type": "string"},
    "number": {"type": "number", "minimum": 1},
    "round": {"anyOf": [_NATURAL, {"enum": ["all", "current"]}]},
}


def scalars() -> dict[str, Schema]:
    """The components that schemas of parameters refer to, beside records."""
    return {name: {"title": name, **schema} for name, schema in SCALARS.items()}


def parameter_schema(kind: ParameterType) -> Schema:
    """What a type accepts; KeyError for one that nobody has written down here."""
    if isinstance(kind, Integer):
        return _integer(kind)
    if isinstance(kind, ArrayOf):
        return {"type": "array", "items": parameter_schema(kind.element), "maxItems": kind.length_max}
    if isinstance(kind, Choice):
        return {"enum": list(kind.choices)}
    if isinstance(kind, NumberChoice):
        return {"enum": list(kind.choices), "description": kind.expects}
    if isinstance(kind, Boolean):
        return {"type": "boolean"}
    if isinstance(kind, Options):
        return {"type": "object", "properties": {flag: {"type": "boolean"} for flag in kind.flags}}
    if isinstance(kind, Text):
        return {"type": "string", "maxLength": kind.length_max}
    own: Schema | None = getattr(kind, "json_schema", None)
    if own is not None:
        return own
    if kind.name == "BlockParam":
        return reference("ReleaseBlockParam" if kind is RELEASE_BLOCK else "BlockParam")
    schema = _NAMED[kind.name]
    length_max = getattr(kind, "length_max", None)
    if length_max is not None and schema.get("type") in ("array", "string"):
        schema = {**schema, "maxItems" if schema["type"] == "array" else "maxLength": length_max}
    return schema


def _integer(kind: Integer) -> Schema:
    number: Schema = {"type": "integer"}
    if kind.minimum is not None:
        number["minimum"] = kind.minimum
    if kind.maximum is not None:
        number["maximum"] = kind.maximum
    return {"anyOf": [number, {"type": "string"}]} if kind.accepts_text else number
