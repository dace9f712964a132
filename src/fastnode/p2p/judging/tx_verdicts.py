"""Verdicts on gossiped transactions, and what they cost the sender.

    timestamp, anchor block                              reject, H; ignore an anchor that was taken back
                                                         lately, was proposed and is not stored, or
                                                         did not come yet
    permission, size, metadata, setup, gas, data,
    deployments                                          reject, M
    double spend                                         reject, H; L when the nullifier was there long ago
    a price below today's, from 5.x on                   ignore: in 4.x it is taken, as it may wait
    not taken by the pool, known, in a new block itself  ignore
    proof invalid                                        reject, L
    not judged here: no verifier, network not known      ignore: taken, not forwarded
    everything right, also with a price below today's    accept

When several checks fail the harshest counts (release 4.x; facts of the network, section 3).  Rules that only this
node has are ignored rather than held against others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fastnode.mempool import validation
from fastnode.mempool.validation import TxValidationResult
from fastnode.p2p.gossip.cache import Verdict
from fastnode.p2p.judging.host import Judgement
from fastnode.p2p.judging.standing import Penalty

__all__ = ["judgement_of"]

_H, _M, _L = Penalty.HIGH_TOLERANCE, Penalty.MID_TOLERANCE, Penalty.LOW_TOLERANCE

#: None: no reason to hold it against anyone.
_PENALTIES: Final[Mapping[str, Penalty | None]] = {
    validation.NOT_PERMITTED: _M,
    validation.EXPIRED: _H,
    validation.TOO_LARGE: _M,
    validation.WRONG_CHAIN: _M,
    validation.WRONG_VERSION: _M,
    validation.WRONG_VK_ROOT: _M,
    validation.WRONG_CONTRACTS: _M,
    validation.SETUP_CALLDATA_LENGTH: _M,
    validation.SETUP_ONLY_SELF: _M,
    validation.SETUP_NULL_SENDER: _M,
    validation.SETUP_UNKNOWN_CONTRACT: _M,
    validation.SETUP_NOT_ALLOWED: _M,
    validation.UNKNOWN_ANCHOR: _H,
    validation.DUPLICATE_NULLIFIER: _H,
    validation.WRONG_HASH: _M,
    validation.CALLDATA_COUNT: _M,
    validation.CALLDATA_TOO_LARGE: _M,
    validation.WRONG_CALLDATA: _M,
    validation.CLASS_LOG_COUNT: _M,
    validation.CLASS_LOG_ORDER: _M,
    validation.CLASS_LOG_MISMATCH: _M,
    validation.CLASS_LOG_LENGTH: _M,
    validation.MALFORMED_INSTANCE: _M,
    validation.WRONG_ADDRESS: _M,
    validation.GAS_TOO_LOW: _M,
    validation.GAS_TOO_HIGH: _M,
    validation.BALANCE_TOO_LOW: _M,
    # From release 5.x on; who has seen another price forwards it.
    validation.FEE_TOO_LOW: None,
    # Checks of release 4.3: others do not know them.
    validation.MALFORMED_CLASS: None,
    validation.WRONG_CLASS_ID: None,
}


def judgement_of(
    result: TxValidationResult, *, is_old_double_spend: bool, is_anchor_excused: bool = False
) -> Judgement | None:
    """None when nothing is wrong with it, as far as it can be judged here.

    ``is_anchor_excused``: an honest node may have the block that it is anchored at.
    """
    reasons = [reason for reason in result.reasons if reason not in result.unjudged]
    if not reasons:
        return None
    penalties: list[Penalty | None] = []
    for reason in reasons:
        if reason == validation.EXISTING_NULLIFIER:
            penalties.append(_L if is_old_double_spend else _H)
        elif reason == validation.UNKNOWN_ANCHOR and is_anchor_excused:
            penalties.append(None)
        else:
            # A reason that is in no table is the verifier's, on a proof.
            penalties.append(_PENALTIES.get(reason, _L))
    harshest = max((penalty for penalty in penalties if penalty is not None), key=lambda one: one.value, default=None)
    text = ", ".join(reasons)
    return Judgement(Verdict.IGNORE, None, text) if harshest is None else Judgement(Verdict.REJECT, harshest, text)
