"""Scenarios: what a proposer, L1 and time do, one after the other, all from a seed."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from tests.derivation.hostile import ATTESTATIONS, BLOBS, HEADERS, REFUSED
from tests.derivation.proposer import Action, Proposer

THROUGH = (
    "multicall",
    "multicall",
    "direct",
    "nested",
    "stuffed",
    "forwarder",
    "twice",
    "decoy before",
    "decoy behind",
)
HOSTILE_BLOBS = (*BLOBS, "other", "more", "seven")


def scenario(seed: int) -> list[dict[str, Any]]:
    rng = random.Random(f"derivation {seed}")
    actions: list[dict[str, Any]] = []
    for _ in range(rng.randrange(3, 9)):
        actions += _some(rng)
    return actions


def _some(rng: random.Random) -> list[dict[str, Any]]:
    kind = rng.choices(
        [
            "good",
            "attested",
            "blob",
            "header",
            "refused",
            "messages",
            "reorg",
            "mine",
            "invalidate",
            "prove",
            "expire",
            "late",
            "restart",
        ],
        [22, 16, 8, 4, 4, 9, 14, 4, 4, 9, 3, 2, 1],
    )[0]
    quiet = [{"do": "quiet"}] if rng.random() < 0.5 else []
    seed = rng.randrange(2**32)
    if kind == "messages":
        return [{"do": "messages", "count": rng.randrange(1, 6), "apart": rng.random() < 0.5, "seed": seed}, *quiet]
    if kind == "reorg":
        depth = rng.choice([1, 2, 3, 5, 8, rng.randrange(1, 21), rng.randrange(1, 21)])
        then = rng.choice([0, 1, depth - 1, depth, depth + 1])
        return [{"do": "reorg", "depth": depth, "then": then, "again": rng.random() < 0.15, "seed": seed}, *quiet]
    if kind == "mine":
        return [{"do": "mine", "blocks": rng.randrange(1, 12)}, *quiet]
    if kind in ("invalidate", "prove", "expire", "late", "restart"):
        return [{"do": kind, "seed": seed}, *quiet]
    action = {"do": "propose", "seed": seed, "through": rng.choice(THROUGH), "txs": rng.choice([0, 1, 2, 3])}
    action["blocks"] = rng.choice([1, 1, 2, 3])
    action["skip"] = rng.choice([0, 0, 0, 1, 2])
    action["heal"] = rng.choice(["bundle", "bundle", "before", "none"])
    action["attest"] = rng.choice(["quorum", "quorum", "all"])
    action["modifier"] = rng.choice([0, 0, 0, -100, 100, 7])
    if rng.random() < 0.25:
        action["delivery"] = rng.choice(["later", "damaged"])
    if kind == "attested" or rng.random() < 0.1:
        action["attest"] = rng.choice(ATTESTATIONS)
        if rng.random() < 0.5:
            action["again"] = rng.choice(["quorum", "all", "quorum", rng.choice(ATTESTATIONS)])
            action["again_in"] = rng.choice(["block", "next"])
    if kind == "blob":
        action["blob"] = rng.choice(HOSTILE_BLOBS)
    if kind == "header":
        action["header"] = rng.choice([*HEADERS, "archive"])
    if kind == "refused":
        action["header"] = rng.choice(list(REFUSED))
    after = [{"do": "reveal"}] if action.get("delivery") and rng.random() < 0.5 else []
    return [action, *quiet, *after]


def act(proposer: Proposer, action: Action) -> None:
    """Everything but what is about followers."""
    match action["do"]:
        case "propose":
            proposer.propose(action)
        case "messages":
            proposer.send_messages(action)
        case "reorg":
            proposer.take_back(action)
        case "mine":
            proposer.l1.skip(action["blocks"])
        case "invalidate":
            proposer.invalidate()
        case "prove":
            proposer.prove(action)
        case "expire":
            proposer.let_expire()
        case "reveal":
            proposer.reveal()


def heal(proposer: Proposer) -> None:
    """Until all of the chain is good again: blobs come, what is invalid is taken back or expires; then a good one."""
    proposer.reveal()
    if any(built.verdict != "good" for built in proposer.chain()[1:]):
        proposer.invalidate()
    if any(built.verdict != "good" for built in proposer.chain()[1:]):
        proposer.let_expire()
    proposer.propose({"seed": proposer.l1.timestamp, "txs": 1})


def kinds(actions: list[dict[str, Any]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for action in actions:
        found[action["do"]] += 1
        for key in ("attest", "blob", "header", "through", "delivery", "again"):
            value = action.get(key)
            if value and value not in ("quorum", "all", "multicall", "now", False):
                found[f"{key} {value}"] += 1
    return found
