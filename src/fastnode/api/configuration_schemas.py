"""JSON schemas of the node's configuration, as nodeAdmin_getConfig shows and nodeAdmin_setConfig takes it."""

from __future__ import annotations

from typing import Final

from fastnode.api.schema_language import Schema, reference
from fastnode.config.configuration import KEYS, AllowList, ConfigKey
from fastnode.config.kinds import Amount, Boolean, Choice, HexText, HexTextList, Integer, Kind, Number

__all__ = ["configuration_schema", "patch_schema"]

_AMOUNT_DIGITS: Final = "^[0-9]{1,78}$"
_FIXED: Final = "Cannot change while the node runs."
#: Shown as an empty text where there is none.
_NODE_ID: Final = "nodeId"


def configuration_schema() -> Schema:
    """What is shown: without secrets, and without what is not set."""
    shown = [key for key in KEYS if not key.is_secret]
    return {
        "title": "AztecNodeAdminConfig",
        "type": "object",
        "description": "The configuration, by the names of other nodes, without what is not set and what is secret.",
        "properties": {key.name: _described(key, _shown(key.kind)) for key in shown},
        "required": [key.name for key in shown if key.default is not None or key.name == _NODE_ID],
    }


def patch_schema() -> Schema:
    """What is taken: any keys, merged; null takes a value away."""
    return {
        "title": "PartialAztecNodeAdminConfig",
        "type": "object",
        "properties": {key.name: _described(key, {"anyOf": [_taken(key.kind), {"type": "null"}]}) for key in KEYS},
        "additionalProperties": False,
    }


def _described(key: ConfigKey, schema: Schema) -> Schema:
    sentences = ([] if key.setting is None else [key.setting.help]) + ([_FIXED] if key.is_fixed else [])
    return {**schema, "description": " ".join(sentences)} if sentences else schema


def _shown(kind: Kind) -> Schema:
    if isinstance(kind, Amount):
        return {"type": "string", "pattern": _AMOUNT_DIGITS}
    return _common(kind, "0-9a-f")


def _taken(kind: Kind) -> Schema:
    if isinstance(kind, Amount):
        return {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": _AMOUNT_DIGITS}]}
    if isinstance(kind, AllowList):
        return {"type": "array", "items": {"type": "object"}, "description": kind.allowed}
    return _common(kind, "0-9a-fA-F")


def _common(kind: Kind, digits: str) -> Schema:
    if isinstance(kind, Boolean):
        return {"type": "boolean"}
    if isinstance(kind, Integer):
        return {"type": "integer", "minimum": kind.minimum, "maximum": kind.maximum}
    if isinstance(kind, Number):
        least = "exclusiveMinimum" if kind.above_minimum else "minimum"
        return {"type": "number", least: kind.minimum, "maximum": kind.maximum}
    if isinstance(kind, Choice):
        return {"enum": list(kind.choices)}
    if isinstance(kind, HexText):
        return _hex(kind, digits)
    if isinstance(kind, HexTextList):
        return {"type": "array", "items": _hex(HexText(kind.byte_count), digits)}
    if isinstance(kind, AllowList):
        return {"type": "array", "items": reference("AllowedElement")}
    return {"type": "string"}


def _hex(kind: HexText, digits: str) -> Schema:
    return {"type": "string", "pattern": f"^0x[{digits}]{{{2 * kind.byte_count}}}$"}
