"""Good values of any setting, made from what its kind allows."""

from __future__ import annotations

from pathlib import Path

from fastnode.config.allow_list import ALLOW_LIST
from fastnode.config.settings import Setting
from fastnode.protocol import releases
from fastnode.values.arrays import ArrayOf
from fastnode.values.choices import Boolean, Choice
from fastnode.values.counts import CountOrAuto, CountOrSize
from fastnode.values.numbers import Amount, Integer, Number, Seconds, Size
from fastnode.values.texts import HexText, UrlPath

DATA = Path(__file__).parents[1] / "data"
#: A record that is known already: nothing changes.
RECORD = Path(releases.__file__).parents[2] / "data" / "releases" / "4.json"


def examples(row: Setting) -> tuple[str, str, str]:
    """Three good values of a setting, none of them its default, as text."""
    kind = row.kind
    if row.name == "network-config":  # is read at once: three names of one file
        return f"{DATA}/network.json", f"{DATA}/../data/network.json", f"{DATA}/../../tests/data/network.json"
    if row.name == "release-record":  # likewise
        return f"{RECORD}", f"{RECORD.parent}/../releases/4.json", f"{RECORD.parent}/../../data/releases/4.json"
    if isinstance(kind, Boolean):
        return (kind.to_text(not row.default),) * 3
    if isinstance(kind, Choice):
        others = [choice for choice in kind.choices if choice != row.default]
        return others[0], others[-1], others[0]
    if isinstance(kind, Integer):
        return str(kind.minimum + 1), str(kind.minimum + 2), str(kind.maximum)
    if isinstance(kind, CountOrAuto):
        return "1", "auto", "3"
    if isinstance(kind, CountOrSize):
        return "1", "20gb", "3"
    if isinstance(kind, Seconds):
        return f"{kind.minimum + 1:g}", f"{kind.minimum + 2:g}", f"{kind.maximum:g}"
    if isinstance(kind, Size):
        return str(kind.minimum), str(kind.minimum + 1), str(kind.maximum)
    if isinstance(kind, Number):
        return str(kind.minimum + 0.25), str(kind.minimum + 0.125), str(kind.maximum)
    if isinstance(kind, Amount):
        return "1", "2", str(2**256 - 1)
    if isinstance(kind, HexText):
        first, second, third = ("0x" + digits * kind.byte_count for digits in ("0a", "00", "ff"))
        return first, second, third
    if isinstance(kind, ArrayOf) and isinstance(kind.element, HexText):
        first, second, third = ("0x" + digits * kind.element.byte_count for digits in ("0a", "00", "ff"))
        return first, f"{second},{first}", f"{third},{second},{first}"
    if kind is ALLOW_LIST:
        first, second, third = (f"C:0x{digits * 32}:0x00000001" for digits in ("0a", "0b", "0c"))
        return first, f"{second},{first}", third
    if isinstance(kind, UrlPath):
        return "/first", "second/part/", "third"
    return "first", "second", "third"


def as_toml(row: Setting, text: str) -> str:
    is_plain = isinstance(row.kind, Boolean | Integer | Number | Seconds | Size)
    is_plain |= isinstance(row.kind, CountOrAuto | CountOrSize) and text.isdecimal()
    return f"{row.name} = {text}\n" if is_plain else f'{row.name} = "{text}"\n'
