"""Another value for each key of the configuration of a node, and what the node answers when it is set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.conftest import NodeProcess

from fastnode.config.config_keys import KEYS, ConfigKey
from fastnode.config.settings import Settings
from fastnode.values.arrays import ArrayOf
from fastnode.values.choices import Boolean, Choice
from fastnode.values.numbers import Amount, Integer, Number
from fastnode.values.texts import HexText

__all__ = ["another_value", "check_keys"]

_TOKEN_CLASS = "0x01efe16b55107894e6b6fb63cebc1a3233e23bbcd648fd9cdf6c0351749ce7ee"
#: Keys of which getConfig answers no value.
_NOT_SHOWN = frozenset(key.name for key in KEYS if key.is_secret)


def another_value(key: ConfigKey, now: Any) -> Any:
    """A value for setConfig that differs from the current one and from the default."""
    kind = key.kind
    if key.name == "txPublicSetupAllowListExtend":
        return [{"classId": _TOKEN_CLASS, "selector": "0xe7f045ff"}]
    if isinstance(kind, Boolean):
        return not now
    if isinstance(kind, Choice):
        return next(choice for choice in kind.choices if choice != now)
    if isinstance(kind, Integer):
        return kind.minimum + (7 if now != kind.minimum + 7 else 8)
    if isinstance(kind, Number):
        return 1 if key.name == "slashMinPenaltyPercentage" else kind.minimum + (0.75 if now != 0.75 else 0.5)
    if isinstance(kind, Amount):
        return "123456789012345678901234567890"
    if isinstance(kind, HexText):
        return "0x" + "0a" * kind.byte_count
    if isinstance(kind, ArrayOf):
        return ["0x" + "0a" * 20]
    return "/some/where"


def check_keys(node: NodeProcess, settings: Settings) -> Mapping[str, str | None]:
    """Set each key of a running node to another value.  It is shown then, or refused as the table of keys says of a
    node with these settings, and nothing has changed; the reasons, None for a key that has changed."""
    found: dict[str, str | None] = {}
    get: Callable[[], dict[str, Any]] = lambda: node.call_admin("nodeAdmin_getConfig")["result"]  # noqa: E731
    for key in KEYS:
        before = get()
        wanted = another_value(key, before.get(key.name))
        answer = node.call_admin("nodeAdmin_setConfig", {key.name: wanted})
        after, expected = get(), key.refusal_of(settings)
        if "error" in answer:
            message = f"Invalid params: config.{key.name} (parameter 1) {expected}"
            assert (answer["error"]["code"], answer["error"]["message"]) == (-32602, message)
            assert after == before, key.name
        else:
            assert expected is None, f"{key.name} is accepted, though it {expected}"
            assert after == before | {key.name: wanted}, key.name
            assert "error" not in node.call_admin("nodeAdmin_setConfig", {key.name: before.get(key.name)}), key.name
            assert get() == before, key.name
        found[key.name] = expected
    return found
