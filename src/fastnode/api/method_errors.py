"""Errors that a method may answer, for the OpenRPC document: the codes of JSON-RPC, and the values of ``data.code``.

The request as a whole can also be answered -32700, -32600 and -32601; those belong to no method.
"""

from __future__ import annotations

from typing import Any, Final

from fastnode.errors import InternalError, InvalidParams, RateLimited, ServerError

__all__ = ["error_components", "errors_of"]

_INVALID_PARAMS: Final = "InvalidParams"
_INTERNAL_ERROR: Final = "InternalError"
_RATE_LIMITED: Final = "RateLimited"

_COMMON: Final[dict[str, dict[str, Any]]] = {
    _INVALID_PARAMS: {
        "code": InvalidParams.code,
        "message": "Invalid params: one is missing, of a wrong type, out of range or too long; the text names it",
    },
    _INTERNAL_ERROR: {"code": InternalError.code, "message": "Internal error: a bug; the log of the node has it"},
    _RATE_LIMITED: {
        "code": RateLimited.code,
        "message": "Rate limit exceeded: the client's budget does not suffice; ask again after retryAfterMs",
        "data": {"code": "RATE_LIMITED", "retryAfterMs": 1000},
    },
}

#: Errors of every method: the chain is not loaded yet, or the answer would be too long.
_ANY: Final = ("RESPONSE_TOO_LARGE",)
#: Methods about the bodies and logs of blocks, which a node need not keep.
_OF_BODIES: Final = (
    "node_getBlock",
    "node_getBlockByHash",
    "node_getBlockByArchive",
    "node_getBlocks",
    "node_getCheckpointedBlocks",
    "node_getCheckpoint",
    "node_getCheckpoints",
    "node_getTxEffect",
    "node_getPrivateLogsByTags",
    "node_getPublicLogsByTagsFromContract",
    "node_getPublicLogs",
    "node_getContractClassLogs",
    "fastnode_getPublicEvents",
    "fastnode_traceTransaction",
    "fastnode_traceBlock",
)
_UPSTREAM: Final = ("NO_UPSTREAM", "UPSTREAM_REJECTED")
_SLASHING: Final = ("SLASHER_NOT_ENABLED", *_UPSTREAM)
_POOL: Final = ("NULLIFIER_CONFLICT", "INSUFFICIENT_FEE_PAYER_BALANCE", "LOW_PRIORITY_FEE")

#: Values of ``data.code`` of the error -32000, beside that of every method.  Some errors have no such code.
_CODES: Final = {
    "node_sendTx": ("INVALID_TX", *_POOL, *_UPSTREAM),
    "node_simulatePublicCalls": ("INVALID_TX", "NO_OVERRIDES", "SIMULATION_FAILED", "BUSY", *_UPSTREAM),
    "node_getL2ToL1MembershipWitness": ("L1_UNAVAILABLE",),
    "node_getValidatorsStats": _UPSTREAM,
    "node_getValidatorStats": _UPSTREAM,
    "nodeAdmin_getSlashOffenses": _SLASHING,
    "nodeAdmin_getSlashPayloads": ("NO_SLASH_PAYLOADS", *_SLASHING),
    "node_getCheckpointAttestationsForSlot": ("NOT_KEPT",),
    "node_getProposalsForSlot": ("NOT_KEPT",),
    "nodeAdmin_pauseSequencer": ("NO_SEQUENCER",),
    "nodeAdmin_resumeSequencer": ("NO_SEQUENCER",),
    "nodeAdmin_pauseSync": ("STILL_PAUSING",),
    "nodeAdmin_rollbackTo": (
        "STILL_PAUSING",
        "ROLLBACK_IMPOSSIBLE",
        "ROLLBACK_REFUSED",
        "ROLLBACK_RUNNING",
        "SNAPSHOT_RUNNING",
    ),
    "nodeAdmin_startSnapshotUpload": ("SNAPSHOT_IN_PROGRESS", "ROLLBACK_RUNNING", "SNAPSHOT_RUNNING"),
}


def error_components() -> dict[str, Any]:
    """The errors that are the same for every method, by name."""
    return _COMMON


def errors_of(method: str, *, takes_parameters: bool) -> list[dict[str, Any]]:
    """The errors that a method may answer; each code once."""
    names = ([_INVALID_PARAMS] if takes_parameters else []) + [_INTERNAL_ERROR, _RATE_LIMITED]
    codes = [*_ANY, *(["BLOCK_PRUNED"] if method in _OF_BODIES else []), *_CODES.get(method, ())]
    cannot = {
        "code": ServerError.code,
        "message": "The request is well formed but cannot be answered; the text says why",
        "data": {"code": {"enum": codes}},
    }
    return [cannot, *({"$ref": f"#/components/errors/{name}"} for name in names)]
