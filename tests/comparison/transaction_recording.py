"""The recording of compare_transactions.py: cases on which both sides agree, small, with a digest of the outcome.

A line is ``{"case", "outcome"}``.  The bytes of a transaction, and of blobs, are written as what differs from
those that they were made from: ``{"base", "delta": [[start, end, bytes in base64], ...]}``.
"""

from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson
from tests.comparison.record_cases import checkpoints
from tests.comparison.transaction_cases import Pieces
from tests.comparison.transaction_outcomes import Json, bases, digest

from fastnode.protocol.blobs import checkpoint_blob_fields

RECORDED = Path(__file__).parents[1] / "data" / "transactions" / "random_cases.jsonl.xz"
#: Bytes of a line that is kept.
LINE_MAX = 6_000
#: Equal bytes between two changes that are worth two.
_GAP = 24


def _base_of(case: Json) -> bytes | None:
    if case.get("base") is None:
        return None
    if case["op"] == "tx":
        return Pieces(bases()[case["base"]]).buffer()
    return checkpoint_blob_fields(checkpoints()[case["base"]].checkpoint.blocks)


_BYTES = {"tx": "data", "blobs": "fields"}


def packed(case: Json) -> Json:
    name, base = _BYTES.get(case["op"], ""), _base_of(case) if case["op"] in _BYTES else None
    if base is None:
        return case
    rest = {key: value for key, value in case.items() if key not in (name, "changes")}
    return {**rest, "delta": _delta(base, base64.b64decode(case[name]))}


def unpacked(case: Json) -> Json:
    if "delta" not in case:
        return case
    base = _base_of(case)
    assert base is not None
    parts, at = [], 0
    for start, end, data in case["delta"]:
        parts += [base[at:start], base64.b64decode(data)]
        at = end
    data = b"".join([*parts, base[at:]])
    rest = {key: value for key, value in case.items() if key != "delta"}
    return {**rest, _BYTES[case["op"]]: base64.b64encode(data).decode()}


def _delta(base: bytes, data: bytes) -> list[list[object]]:
    shorter = min(len(base), len(data))
    head = next((place for place in range(shorter) if base[place] != data[place]), shorter)
    tail = next((n for n in range(shorter - head) if base[-1 - n] != data[-1 - n]), shorter - head)
    if head == len(base) == len(data):
        return []
    if len(base) != len(data):
        return [[head, len(base) - tail, base64.b64encode(data[head : len(data) - tail]).decode()]]
    found: list[list[object]] = []
    start, last = head, head
    for place in range(head, len(data) - tail):
        if base[place] != data[place]:
            if place - last > _GAP:
                found.append([start, last + 1, base64.b64encode(data[start : last + 1]).decode()])
                start = place
            last = place
    return [*found, [start, last + 1, base64.b64encode(data[start : last + 1]).decode()]]


def write_recording(path: Path, agreed: Sequence[tuple[Json, Json]]) -> None:
    """Those that are small enough."""
    path.parent.mkdir(exist_ok=True)
    lines = []
    for case, outcome in agreed:
        line = json.dumps({"case": packed(case), "outcome": digest(outcome)}, separators=(",", ":"))
        if len(line) <= LINE_MAX or case["op"] == "pool":
            lines.append(line)
    path.write_bytes(lzma.compress("\n".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))


def read_recording(path: Path = RECORDED) -> Iterator[Json]:
    for line in lzma.decompress(path.read_bytes()).splitlines():
        yield orjson.loads(line)
