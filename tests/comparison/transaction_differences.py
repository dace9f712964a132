"""Which answers of both sides are the same, and which rows of docs/compatibility.md explain those that are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.comparison.transaction_outcomes import Json

from fastnode.mempool import validation
from fastnode.protocol.tx import Tx

#: Letters of the points that a peer pays, the fewest first.
_HARSHER = "HML"
#: Points for a transaction that fails one of the published validators, where its caller decides.
_OF_CALLER = {"doubleSpendValidator": "H"}
UNEXPECTED = "Unexpected error during validation"

#: Members of the description of a transaction that must be equal.
_EQUAL: Final = ("claimed", "hash", "written", "size", "pool")


def gossip_there(failed: dict[str, str]) -> str:
    """Verdict on a gossiped transaction, by the validators that it fails and the points that each costs a peer."""
    if not failed:
        return "accept"
    letters = [_OF_CALLER.get(name, severity[0]) for name, severity in failed.items()]
    return f"reject {max(letters, key=_HARSHER.index)}"


def _is_refused(answer: Json) -> bool:
    """Tell that a transaction gets nowhere: not by a client, a peer or a proposal."""
    if "refused" in answer:
        return True
    gossip = answer["gossip"] if isinstance(answer["gossip"], str) else gossip_there(answer["gossip"])
    return answer["rpc"][0] == "invalid" and gossip != "accept" and answer["proposal"][0] == "invalid"


def _of_tx(here: Json, there: Json) -> list[str]:
    if "refused" in here or "refused" in there:
        return [] if _is_refused(here) and _is_refused(there) else ["read"]
    found = [name for name in _EQUAL if here[name] != there[name]]
    if here["rpc"][0] != there["rpc"][0] or set(here["rpc"]) != set(there["rpc"]):
        found.append("rpc")
    if here["gossip"] != gossip_there(there["gossip"]):
        found.append("gossip")
    return found + [name for name in ("build", "proposal") if here[name][0] != there[name][0]]


def differences(case: Json, here: Json, there: Json) -> list[str]:
    """Names of what differs."""
    if "ended" in there:
        return ["the published node has ended"]
    if case["op"] in ("tx", "txJson"):
        return _of_tx(here, there)
    if case["op"] == "attested":  # one that cannot be taken apart is none
        return [] if here["valid"] == there.get("valid", False) else ["valid"]
    if "refused" in here or "refused" in there:
        return [] if "refused" in here and "refused" in there else ["read"]
    return [name for name in here if here[name] != there.get(name)]


# ---- explained --------------------------------------------------------------------------------------

_CLASS_REASONS = {validation.MALFORMED_CLASS, validation.WRONG_CLASS_ID}


def _explains_class_ids(name: str, here: Json, there: Json) -> bool:
    """Its own reasons here; there an unexpected error where the class id is wrong, and nothing in some cases."""
    if name not in ("rpc", "gossip", "build") or _CLASS_REASONS.isdisjoint(here["rpc"]):
        return False
    ours, theirs = set(here["rpc"]) - _CLASS_REASONS, set(there["rpc"]) - {UNEXPECTED}
    return name != "rpc" or ours == theirs or ours - theirs <= {"invalid", validation.SETUP_UNKNOWN_CONTRACT}


def _explains_throwing(name: str, here: Json, there: Json) -> bool:
    """A rule that fails there for something that another rule refuses on both sides."""
    if here["rpc"][0] != "invalid":
        return False
    if any(item.startswith("thrown:") for item in there["rpc"]):
        return name in ("rpc", "pool")
    if UNEXPECTED not in there["rpc"]:
        return False
    if name == "build":
        return bool(here["proposal"][0] == "invalid")
    return name == "rpc" and set(there["rpc"]) - {UNEXPECTED} <= set(here["rpc"])


def _explains_large_numbers(here: Json, there: Json) -> bool:
    """A chain id or version that the rule there cannot compare ends all of them with an error."""
    is_thrown = any(item.startswith("thrown:") and item.endswith("safe integer") for item in there["rpc"])
    return is_thrown and not {validation.WRONG_CHAIN, validation.WRONG_VERSION}.isdisjoint(here["rpc"])


_STRICT = ("not base64", "not hex", "characters, at most", "more than 64 hex digits")


def explanation(case: Json, name: str, here: Json, there: Json) -> str | None:
    """The row that explains a difference of this name."""
    if "ended" in there:
        return None
    if case["op"] == "message":  # each fault alone is in tests/p2p/bent_messages.py
        are_rejected = all(item["verdict"].startswith("reject") for item in (here, there))
        return "Points for several faults" if are_rejected else None
    if case["op"] == "record" and any(text in here.get("refused", "") for text in ("left over", "is above")):
        return "Forms of numbers in records"
    if case["op"] == "recordJson":
        return "Forms of numbers in records" if "refused" in here else None
    if case["op"] not in ("tx", "txJson"):
        return None
    if name == "read":
        is_strict = any(text in here.get("refused", "") for text in _STRICT)
        return "How a transaction is written" if case["op"] == "txJson" and ("rpc" in here or is_strict) else None
    if _explains_large_numbers(here, there):
        return "Chain ids and versions above 2^53"
    if _explains_class_ids(name, here, there):
        return "Class ids"
    return "Rules that fail" if _explains_throwing(name, here, there) else None


# ---- pools ------------------------------------------------------------------------------------------


def pool_difference(step: Json, here: Json, there: Json) -> str | None:
    if "refused" in there or "ended" in there:
        return "refused"
    ours, theirs = here["answer"], there["answer"]
    if ours is not None:
        length = 3 if step["isClient"] else 2  # nobody is told why a peer's is ignored
        if _padded(ours)[:length] != _padded(theirs)[:length]:
            return "answer"
    if here["pending"] != there["pending"]:
        return "pending"
    return None if here["mined"] == [status == "mined" for status in there["status"]] else "mined"


def _padded(answer: list[Any]) -> list[Any]:
    return [*answer, None, None][:3]


#: Reasons for which transactions that nobody can include any more are let go of.
_OUTDATED: Final = (validation.EXPIRED, validation.UNKNOWN_ANCHOR)


def pool_explanation(
    case: Json,
    step: Json,
    mined_before: set[str],
    causes: set[str],
    here: Json,
    there: Json,
    txs: Mapping[str, Tx],
) -> str | None:
    """``mined_before``: what the pool had in blocks; ``causes``: why it has let go of others with this step; ``txs``:
    all of the sequence, by hash."""
    ours, theirs = here["pending"], there.get("pending", [])
    kept_there, lost_there = set(theirs) - set(ours), set(ours) - set(theirs)
    if step["do"] == "undo" and lost_there and any(cause.endswith(_OUTDATED) for cause in causes):
        # What cannot be included any more is paid for there before what comes back, or takes its room.
        lost, kept = ({txs[tx_hash].data.fee_payer for tx_hash in hashes} for hashes in (lost_there, kept_there))
        is_instead = lost <= kept or 0 < case["options"]["limit"] <= len(theirs)
        return "Blocks that are taken back" if is_instead else None
    if not set(ours) < set(theirs) or [tx_hash for tx_hash in theirs if tx_hash in set(ours)] != ours:
        return None
    if step["do"] == "undo":
        undone = mined_before - step["made"]["mined"].keys()
        now = step["made"]["timestamp"]
        # What waited already is not asked there before the next block whether its time is over.
        is_late = all(txs[tx_hash].data.expiration_timestamp <= now for tx_hash in kept_there)
        return "Blocks that are taken back" if case["options"]["deleteAll"] or not undone or is_late else None
    if step["do"] == "block" and any("insufficient fee payer balance" in cause for cause in causes):
        return "Fee payers"
    return None
