"""Interface of the network to the node that it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from fastnode.p2p.gossip.cache import Verdict
from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.judging.standing import Penalty
from fastnode.p2p.messages.request_forms import StatusMessage

__all__ = ["Host", "Judgement"]


class Judgement(NamedTuple):
    """Verdict on a message, its cost to the sender, the reason, and seconds before the message is handed on, if
    ``is_wanted`` says then that it still should be."""

    verdict: Verdict
    penalty: Penalty | None = None
    reason: str = ""
    wait_s: float = 0.0
    is_wanted: Callable[[], bool] = lambda: True


class Host(Protocol):
    """A node.  Called from threads of the network, which may wait."""

    def status(self) -> StatusMessage: ...

    def judge(self, topic: Topic, payload: bytes, peer: str) -> Judgement:
        """Judge a message; may take as long as the check of a proof."""

    @property
    def has_validators(self) -> bool:
        """True if the node can say that it is a validator's; the same from start to end."""

    def authenticate(self, message: bytes) -> bytes | None:
        """A validator's signature (68 bytes) of a message; None if none can be made."""

    def tx(self, tx_hash: bytes) -> bytes | None:
        """The binary form of a transaction that waits or is in a block that is not final."""

    def block(self, number: int) -> bytes | None:
        """The binary form of a block."""

    def tx_hashes_of(self, archive_root: bytes) -> Sequence[bytes] | None:
        """Transaction hashes of the block, stored or proposed, after which the archive has this root."""
