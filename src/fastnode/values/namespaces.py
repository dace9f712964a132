"""The two namespaces under which clients and nodes know the same methods: older ones and newer ones.

    node_getBlock          aztec_getBlock
    nodeAdmin_getConfig    aztecAdmin_getConfig

A method is called by the older name everywhere inside of the node, in its documentation and in its metrics.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

__all__ = ["Namespaces", "newer_name", "wire_names"]

#: Namespaces that are answered, of the two.
Namespaces: TypeAlias = Literal["both", "node", "aztec"]

_NEWER: Final = {"node": "aztec", "nodeAdmin": "aztecAdmin"}


def newer_name(name: str) -> str | None:
    """Name of a method in newer releases; None for one of another namespace, which has one name."""
    namespace, _, rest = name.partition("_")
    return f"{_NEWER[namespace]}_{rest}" if namespace in _NEWER else None


def wire_names(name: str, namespaces: Namespaces = "both") -> list[str]:
    """Names by which clients may call a method."""
    newer = newer_name(name)
    if newer is None or namespaces == "node":
        return [name]
    return [newer] if namespaces == "aztec" else [name, newer]
