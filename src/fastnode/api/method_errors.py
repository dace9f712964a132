"""Errors that a method may answer, for the OpenRPC document and the page of methods: the codes of JSON-RPC, and the
values of ``data.code``.

The request as a whole can also be answered -32700, -32600 and -32601; those belong to no method.
"""

from __future__ import annotations

from typing import Any, Final

from fastnode.errors import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ParseError,
    RateLimited,
    ServerError,
)

__all__ = ["CODES", "REASONS", "error_components", "errors_of"]

#: Codes of JSON-RPC, and when each is answered.
CODES: Final[dict[int, str]] = {
    ParseError.code: "The body is not JSON, or has more arrays, objects, values or levels than are allowed. The id is "
    "`null`.",
    InvalidRequest.code: 'A call is not an object, has no `method`, or has a `jsonrpc` other than `"2.0"`; a batch '
    "is empty or too large; the body is too large (HTTP 413) or in an unknown coding (415).",
    MethodNotFound.code: "This port does not have the method; the message names the port or the name that has it.",
    InvalidParams.code: "A parameter is missing, of a wrong type, out of range, too long, or has a member that does "
    "not exist; the message names it.",
    InternalError.code: "A bug in the node; its log has the traceback.",
    ServerError.code: "The request is well formed and cannot be answered; the message gives the "
    "reason, and `data.code`, where present, is one of those below. Without a valid API key with HTTP 401, from a page "
    "that may not use the port with 403.",
    RateLimited.code: "The client has exceeded its rate limit (HTTP 429 if that holds for every call).",
}
#: Values of ``data.code``, and what each means for a client.
REASONS: Final[dict[str, str]] = {
    "BLOCK_PRUNED": "The node does not retain the body or the logs of the block (`--keep-blocks`): query a node "
    "that does. `data.oldestBlock` is the oldest one retained.",
    "BUSY": "The node has no memory, thread or process for the request now (HTTP 503 if that holds for all of it): "
    "retry after a second.",
    "BUS_UNAVAILABLE": "The bus of the fleet is unreachable, so the transaction was not accepted: retry.",
    "DATABASE_DAMAGED": "The node cannot read its database: query another node; the operator repairs it.",
    "DISK_FAILS": "The disk refused the write: retry later.",
    "DISK_FULL": "The disk of the node is full; nothing was stored: retry later.",
    "FOREIGN_PAGE": "A page of another site called a method of a local network that changes the chain.",
    "FORK_FAILED": "The network to fork from cannot be read; the local network is unchanged.",
    "FORK_NOT_ALLOWED": "`--fork-sources` does not have the source to fork from.",
    "INSUFFICIENT_FEE_PAYER_BALANCE": "The fee payer cannot pay for this transaction in addition to its "
    "pending ones; `data` has the amounts.",
    "INVALID_TX": "The transaction is invalid; `data.reasons` has every reason.",
    "L1_UNAVAILABLE": "L1 does not answer: retry.",
    "LOW_PRIORITY_FEE": "The pool is full and the priority fee too low; `data.minimumPriorityFee` is enough.",
    "NOT_KEPT": "The node does not retain messages of peers (`--untried-peers`).",
    "NO_OVERRIDES": "The simulation runs on a followed node, which takes no overrides.",
    "NO_SEQUENCER": "No sequencer runs in the node.",
    "NO_SLASH_PAYLOADS": "L1 tallies votes per validator; there are no payloads.",
    "NO_TRANSACTIONS": "The node has no upstream, peer or block builder for a transaction; the message gives "
    "the reason.",
    "NO_UPSTREAM": "No followed node answers: retry.",
    "NULLIFIER_CONFLICT": "A pending transaction has the same nullifier and pays as much; "
    "`data.conflictingTxHash` is its hash.",
    "OTHER_CLASS": "The artifact is of another contract class than the one named; `data.classId` is its class.",
    "RATE_LIMITED": "The client has exceeded its rate limit: retry after `data.retryAfterMs`.",
    "RESPONSE_TOO_LARGE": "The result exceeds `data.limit` bytes (`--rpc-max-response-size`): ask for less at once.",
    "ROLLBACK_IMPOSSIBLE": "The chain cannot be rolled back to the block.",
    "ROLLBACK_REFUSED": "The block is not a target that a rollback may have; the message names one that is.",
    "ROLLBACK_RUNNING": "The chain is being rolled back: retry when that has ended.",
    "SIMULATION_FAILED": "No block can include the transaction; the message gives the reason.",
    "SLASHER_NOT_ENABLED": "The node has no source of offenses: neither L1 nor an upstream that reads L1.",
    "SNAPSHOT_IN_PROGRESS": "A snapshot is being uploaded: retry when that has ended.",
    "SNAPSHOT_RUNNING": "The databases are being copied for a snapshot: retry when that has ended.",
    "STARTING": "The node is starting (HTTP 503); the message names what it waits for: retry after `Retry-After`.",
    "STILL_PAUSING": "A block is still being ingested: retry.",
    "TOO_MANY_ARTIFACTS": "The node has as many artifacts as it stores.",
    "TX_TOO_LARGE": "The transaction is larger than a message on the bus of the fleet may be.",
    "UNKNOWN_CLASS": "No contract class on the chain has the artifact; `data.classId` is the class that it has.",
    "UPSTREAM_REJECTED": "The followed node rejected the call; the message is its own, `data.upstreamCode` its code.",
}

_INVALID_PARAMS: Final = "InvalidParams"
_INTERNAL_ERROR: Final = "InternalError"
_RATE_LIMITED: Final = "RateLimited"

_COMMON: Final[dict[str, dict[str, Any]]] = {
    _INVALID_PARAMS: {
        "code": InvalidParams.code,
        "message": "Invalid params: one is missing, of a wrong type, out of range or too long; the message names it",
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
        "message": "The request is well formed but cannot be answered; the message gives the reason",
        "data": {"code": {"enum": codes}},
    }
    return [cannot, *({"$ref": f"#/components/errors/{name}"} for name in names)]
