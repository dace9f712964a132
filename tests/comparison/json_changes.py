"""A JSON value with one place changed: left out, put in, of another type, a number or text at its edge."""

from __future__ import annotations

import copy
import random
from typing import Any

from fastnode.protocol.fields import MODULUS

TEXTS = (
    *("", "0", "1", "01", "-1", "1.0", " 1", "1e3", "0x", "0x0", "0x10", "0x" + "00" * 31, "0x" + "00" * 32),
    *("0x" + "00" * 33, "0x" + "ff" * 32, "0x" + "FF" * 20, "0X" + "00" * 32, "0x" + "0g" * 32, "0x" + "11" * 32 + " "),
    *(f"0x{MODULUS:064x}", f"0x{MODULUS - 1:064x}", str((1 << 64) - 1), str(1 << 64), str(1 << 32), str(1 << 128)),
)
VALUES: tuple[Any, ...] = (None, True, 0, 1, -1, 1.5, 1 << 32, (1 << 32) - 1, 1 << 53, [], {}, [[]], "x", *TEXTS)


def change_json(source: random.Random, value: Any) -> tuple[str, Any]:
    """Path of the change, and a copy with it."""
    whole = [copy.deepcopy(value)]
    holder: Any = whole
    key: Any = 0
    path: list[str] = []
    while isinstance(holder[key], (dict, list)) and holder[key] and source.random() < 0.9:
        holder = holder[key]
        key = source.choice(list(holder)) if isinstance(holder, dict) else source.randrange(len(holder))
        path.append(str(key) if isinstance(key, str) else "[]")
    _change(source, holder, key)
    return ".".join(path), whole[0]


def _change(source: random.Random, holder: Any, key: Any) -> None:
    which, old = source.randrange(6), holder[key]
    if which == 0 and isinstance(holder, dict):
        del holder[key]
    elif which == 1 and isinstance(old, dict):
        old[source.choice(("extra", "__proto__", "hash"))] = source.choice(VALUES)
    elif which == 1 and isinstance(old, list):
        old.append(source.choice((*old[:1], *VALUES)))
    elif which in (2, 3) and isinstance(old, str) and len(old) > 2:
        forms = (
            old[:-1],
            old + "0",
            old.upper(),
            old[2:],
            old.replace("0x", "0X"),
            old + " ",
            "0x" + old[2:].lstrip("0"),
        )
        holder[key] = source.choice(forms)
    elif which == 4 and isinstance(old, list):
        holder[key] = old[: source.randrange(len(old) + 1)]
    else:
        holder[key] = source.choice(VALUES)
