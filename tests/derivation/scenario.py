"""Scenarios: what a proposer, L1 and time do, one after the other, all from a seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
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


#: What only a follower in this process can be asked for, beside what L1 and the proposer do.
MORE = ("prune", "false invalidation", "odd proof", "content", "beacon", "pause", "kill", "lag")
CONTENTS = ("classes", "classes", "many")


def mixture(seed: int) -> list[dict[str, Any]]:
    """As :func:`scenario`, with more kinds of trouble; ``during``: what goes on meanwhile."""
    rng = random.Random(f"mixture {seed}")
    actions: list[dict[str, Any]] = []
    if rng.random() < 0.3:  # in the first block of L1 that anybody looks at
        actions.append({"do": "messages", "count": rng.randrange(1, 4), "seed": rng.randrange(2**32)})
    for _ in range(rng.randrange(3, 9)):
        actions += _some(rng) if rng.random() < 0.6 else _more(rng)
    if rng.random() < 0.3:  # in the last one
        actions.append({"do": "messages", "count": rng.randrange(1, 4), "seed": rng.randrange(2**32)})
    return actions


def without_followers_in_this_process(actions: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A mixture as other followers can live through it: what is held or looked at in between is left out."""
    for action in actions:
        if "during" in action:
            yield from without_followers_in_this_process(action["during"])
        elif action["do"] != "beacon":
            yield action


def _more(rng: random.Random) -> list[dict[str, Any]]:
    kind = rng.choices(MORE, [5, 8, 14, 14, 10, 6, 10, 6])[0]
    seed = rng.randrange(2**32)
    quiet = [{"do": "quiet"}] if rng.random() < 0.5 else []
    if kind in ("prune", "false invalidation"):
        return [{"do": kind, "seed": seed}, *quiet]
    if kind == "odd proof":
        return [{"do": "prove", "seed": seed, "how": rng.choice(["less", "early", "wrong", "usual"])}, *quiet]
    if kind == "content":
        content = "largest" if rng.random() < 0.02 else rng.choice(CONTENTS)
        blocks = 2 if content == "largest" else rng.choice([1, 2])
        action = {"do": "propose", "seed": seed, "txs": rng.choice([1, 2]), "blocks": blocks}
        return [action | {"content": content, "attest": rng.choice(ATTESTATIONS[:2])}, *quiet]
    if kind == "beacon":
        return [{"do": "beacon", "how": rng.choice(["honest", "lies", "is away", "has nothing"])}, *quiet]
    if kind == "lag":
        return [{"do": "lag", "blocks": rng.randrange(1, 5), "during": _quiet_free(rng)}, *quiet]
    return [{"do": kind, "during": _quiet_free(rng)}, *quiet]


def _quiet_free(rng: random.Random) -> list[dict[str, Any]]:
    """Some actions that wait for nobody."""
    actions: list[dict[str, Any]] = []
    for _ in range(rng.randrange(1, 4)):
        actions += _some(rng)
    return [action for action in actions if action["do"] not in ("quiet", "late", "restart")]


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
        case "prune":
            proposer.prune()
        case "false invalidation":
            proposer.invalidate_falsely(action)


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
