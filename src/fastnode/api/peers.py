"""The methods of 5.x about peers and what they say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from fastnode.errors import ServerError
from fastnode.jsonrpc.methods import Context, Method, Parameter, Signature
from fastnode.values.choices import BOOLEAN
from fastnode.values.numbers import Integer
from fastnode.values.texts import HexText

__all__ = ["Heard", "methods"]

_SLOT: Final = Parameter("slot", Integer(name="slot", minimum=0, accepts_text=True))
_PAYLOAD: Final = Parameter(
    "proposalPayloadHash", HexText(32, name="CheckpointProposalHash", meaning="the hash of a payload"), optional=True
)
_NOT_KEPT: Final = (
    "This node keeps no proposals and attestations of peers: it is not on the peer-to-peer network of release 5.x "
    "(--p2p-enabled with --untried-peers), or does not follow L1, by which they are judged"
)
#: Answers about a slot, as JSON: its attestations, of the checkpoint with this hash where there is one, and its
#: proposals; none where nothing is kept.
Heard = Callable[[int, bytes | None], Sequence[bytes]]


class _PeerMethods:
    def __init__(self, connected: Callable[[], Sequence[tuple[str, float]]] | None, heard: Heard | None) -> None:
        self._connected = connected
        self._heard = heard

    def peers(self, _context: Context, _include_pending: bool | None = None) -> bytes:
        """Peers that are connected; this node does not tell whom it dials."""
        connected = () if self._connected is None else self._connected()
        peers: list[dict[str, Any]] = [
            {"status": "connected", "score": score, "id": peer_id} for peer_id, score in connected
        ]
        return orjson.dumps(peers)

    def attestations(self, _context: Context, slot: int, payload_hash: str | None = None) -> bytes:
        return self._told(slot, None if payload_hash is None else bytes.fromhex(payload_hash[2:]))[0]

    def proposals(self, _context: Context, slot: int) -> bytes:
        return self._told(slot, None)[1]

    def _told(self, slot: int, payload_hash: bytes | None) -> Sequence[bytes]:
        told = () if self._heard is None else self._heard(slot, payload_hash)
        if not told:
            raise ServerError(_NOT_KEPT, data={"code": "NOT_KEPT"})
        return told


def methods(connected: Callable[[], Sequence[tuple[str, float]]] | None, heard: Heard | None = None) -> list[Method]:
    """``connected`` gives id and score of each peer; None: this process does not know any.  ``heard``: None where
    there are no peers."""
    handlers = _PeerMethods(connected, heard)
    return [
        Method(
            name="node_getPeers",
            summary="The peers that are connected.",
            handler=handlers.peers,
            five=Signature("PeerInfo[]", (Parameter("includePending", BOOLEAN, optional=True),)),
        ),
        Method(
            name="node_getCheckpointAttestationsForSlot",
            summary="Attestations of a slot that peers have sent, one of each member of its committee.",
            handler=handlers.attestations,
            in_thread=True,
            five=Signature("CheckpointAttestation[]", (_SLOT, _PAYLOAD)),
        ),
        Method(
            name="node_getProposalsForSlot",
            summary="Proposals of a slot that peers have sent, in their binary form.",
            handler=handlers.proposals,
            in_thread=True,
            five=Signature("ProposalsForSlot", (_SLOT,)),
        ),
    ]
