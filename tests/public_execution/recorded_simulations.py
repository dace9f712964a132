"""Simulations that release 4.1.2 was asked for, and its answers.

``tests/data/simulations_recorded.jsonl.xz`` has them in the form of ``tests/mempool/recorded.py``: a transaction is
``{"$tx": hash, ...}``, or ``{"$whole": {...}}`` without its proof if it was never sent.  ``source``: ``queries``
and ``queries_fresh`` were asked at block 106, ``pending_queries`` at block 64, ``traffic`` by a wallet now and then.
"""

from __future__ import annotations

import lzma
from typing import Any

import orjson
from tests.mempool.recorded import DATA, expand, made_up_proof

Json = dict[str, Any]


def recorded_simulations() -> list[Json]:
    lines = lzma.decompress((DATA / "simulations_recorded.jsonl.xz").read_bytes()).splitlines()
    rows = [orjson.loads(line) for line in lines]
    for row in rows:
        row["params"][0] = _transaction(row["params"][0])
    return rows


def _transaction(value: Any) -> Any:
    if isinstance(value, dict) and "$whole" in value:
        return value["$whole"] | {"chonkProof": made_up_proof("whole")}
    return expand(value)
