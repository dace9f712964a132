"""Choice of the final checkpoint of a local network.

Wallets need finality to move: a sender may use 20 tags of a pair beyond the newest final one, and a receiver refuses
a log older than a day that is not final while a later one is.  Tests of reorgs need it not to be instant.  So a
checkpoint is final when ``lag`` checkpoints follow it, or when it is older than a day by the time of the chain; never
beyond a snapshot that may still be returned to, and once final it stays so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView

__all__ = ["final_checkpoint"]

#: Seconds of chain time after which everything is final.
AGE_MAX_S: Final = 86_400


def final_checkpoint(chain: ChainView, *, proven: int, lag: int, pinned_block: int | None) -> int:
    """Number of the newest final checkpoint.  ``pinned_block``: nothing after this block becomes final."""
    final = chain.tips.finalized.checkpoint.number
    newest = chain.tips.checkpointed.checkpoint.number
    limit = proven if pinned_block is None else min(proven, chain.newest_complete_checkpoint(pinned_block))
    candidate = max(newest - lag, _newest_aged(chain, final, limit))
    return max(final, min(candidate, limit))


def _newest_aged(chain: ChainView, final: int, limit: int) -> int:
    """The newest checkpoint up to ``limit`` that is too old not to be final; ``final`` if there is none."""
    tip = chain.block_info(chain.tip_number)
    assert tip is not None
    oldest_open = tip.timestamp - AGE_MAX_S
    low, high = final, limit
    while low < high:
        middle = (low + high + 1) // 2
        if _timestamp_of(chain, middle) < oldest_open:
            low = middle
        else:
            high = middle - 1
    return low


def _timestamp_of(chain: ChainView, checkpoint_number: int) -> int:
    checkpoint = chain.checkpoint(checkpoint_number)
    assert checkpoint is not None
    info = chain.block_info(checkpoint.last_block)
    assert info is not None
    return info.timestamp
