"""Every error fastnode raises on purpose, as one tree.

Three branches matter to callers:

* :class:`RpcError` and below travel to the client: each carries its JSON-RPC code, a message
  that names the parameter or the limit, and optional ``data``.
* :class:`Refused` and below say that something cannot be done, without knowing who asked: the engine makes an
  :class:`RpcError` of them (jsonrpc/refusals.py), a command one line.
* :class:`StartError` and below stop the process with one line on standard error and their own exit
  code; operators see them, so each says what to do.

Everything else below :class:`FastnodeError` is internal: the RPC engine logs it with its
traceback and answers -32603 without details.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def one_line(text: str) -> str:
    """Return the text of another program without control characters: L1 nodes quote the bytes of a revert, NULs too."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


class FastnodeError(Exception):
    """Root of the tree."""


class LeftToStrictPath(FastnodeError):
    """A call that the fast path leaves alone: it takes too long, or its parameters have to be looked at by their types.
    Raised before a result is made."""


# ---- answered to the client ---------------------------------------------------------------


class RpcError(FastnodeError):
    """A JSON-RPC error answer.  ``code`` is the class's unless given."""

    code = -32000

    def __init__(self, message: str, *, data: Any = None, code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.data = data
        if code is not None:
            self.code = code


class ParseError(RpcError):
    """The body is not JSON."""

    code = -32700


class InvalidRequest(RpcError):
    """JSON, but not a JSON-RPC request."""

    code = -32600


class MethodNotFound(RpcError):
    code = -32601


class InvalidParams(RpcError):
    """A parameter is missing, of a wrong type, out of range or too long; the message names it."""

    code = -32602


class InternalError(RpcError):
    """Answered for unexpected faults; never carries internals."""

    code = -32603


class ServerError(RpcError):
    """The request is well formed but cannot be answered: unknown reference block, pruned history, ..."""

    code = -32000


class UnknownBlock(ServerError):
    """A request names a block that is not on the chain (yet): ``block_hash`` is what it named."""

    def __init__(self, message: str, block_hash: bytes) -> None:
        super().__init__(message)
        self.block_hash = block_hash


class RateLimited(RpcError):
    """The client has used up its budget; in ``wait_s`` seconds there is enough again."""

    code = -32005

    def __init__(self, message: str, wait_s: float) -> None:
        super().__init__(message, data={"code": "RATE_LIMITED", "retryAfterMs": math.ceil(wait_s * 1000)})
        self.wait_s = wait_s


class NodeBusy(ServerError):
    """There is no memory left in the budget of ``limit`` bytes for what a request needs; a little later there is.

    ``of_address``: the budget is that of the requests of one address."""

    def __init__(self, limit: int, *, of_address: bool = False) -> None:
        whose, setting = ("from this address ", "-per-address") if of_address else ("", "")
        super().__init__(
            f"The node is busy: requests {whose}under way need all of the {limit} bytes of memory that they may take "
            f"(--rpc-memory-budget{setting}); try again in a second",
            data={"code": "BUSY", "retryAfterMs": 1000},
        )
        self.limit = limit


class ResponseTooLarge(ServerError):
    """The answer would exceed the limit of one response, ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The response exceeds the limit of {limit} bytes; ask for less at once",
            data={"code": "RESPONSE_TOO_LARGE", "limit": limit},
        )


# ---- cannot be done -----------------------------------------------------------------------


class Refused(FastnodeError):
    """A request that cannot be done, now or at all.  ``data`` says for programs why, as a JSON object."""

    def __init__(self, message: str, *, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.data = data


class ValueRefused(Refused):
    """A value that was given is wrong; the message names it."""


class BlockUnavailable(Refused):
    """The state at a block that is not here yet, or no longer."""


class BlockPruned(Refused):
    """An answer needs the body of a block that is not kept: blocks from ``oldest`` on have theirs.

    ``number``: the block, where it is known.  ``what`` names what is asked for; None: the block.
    """

    def __init__(self, number: int | None, oldest: int, what: str | None = None) -> None:
        place = "in blocks before" if number is None else f"in block {number}, before"
        told = f"Block {number} is pruned" if what is None else f"{what} pruned ({place} {oldest})"
        super().__init__(
            f"{told}: this node keeps the bodies and logs of blocks from {oldest} on (--keep-blocks); ask a node that "
            f"keeps them all",
            data={"code": "BLOCK_PRUNED", "oldestBlock": oldest} | ({} if number is None else {"blockNumber": number}),
        )
        self.number, self.oldest = number, oldest


class UpstreamVerdict(Refused):
    """Another node refused: ``code``, message and data are its own."""

    def __init__(self, message: str, *, code: int, data: Any = None) -> None:
        super().__init__(message, data=data)
        self.code = code


# ---- stops the process --------------------------------------------------------------------


class StartError(FastnodeError):
    """Stops a command with one clear line and ``exit_code``."""

    exit_code = 1


class ExtensionMissingError(StartError, ImportError):
    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"the compiled extension fastnode._ext.{name} cannot be loaded ({reason}); build it with `pip install .` "
            f"or scripts/run"
        )


class SettingError(StartError):
    """A setting has a bad value or an unknown name; another attempt would end in the same way."""

    exit_code = 78  # EX_CONFIG of sysexits.h


class KeystoreError(SettingError):
    """The keystore cannot be used; the message names the file and the place, and has no key."""


class DataDirectoryError(StartError):
    """The data directory cannot be used: unwritable, in use, of another chain, or of a newer schema."""


class UnusableDirectoryError(DataDirectoryError, SettingError):
    """It is no directory, or this user may not use it."""


class UnknownRollup(StartError):
    """The rollup on L1 is of a release, or begins with a genesis, that is not followed here."""


class ChainFileError(StartError):
    """A chain file cannot be read; ``line`` is 1-based."""

    def __init__(self, path: str, line: int | None, reason: str) -> None:
        where = f"{path}, line {line}" if line is not None else path
        super().__init__(f"{where}: {reason}")
        self.path, self.line, self.reason = path, line, reason


class SnapshotError(StartError):
    """A snapshot cannot be made, found, read or believed; what was there before is untouched."""


class SnapshotUnconfirmed(SnapshotError):
    """Nobody who could say whether a snapshot is of the network answers now."""


class ExportError(StartError):
    """Tables cannot be exported, continued, or believed; the message names the file, or the block and the row."""


# ---- internal -----------------------------------------------------------------------------


class DecodeError(FastnodeError, ValueError):
    """Bytes or JSON do not have the shape a protocol type asks for; the message names the field's path."""


class BlockRejected(FastnodeError):
    """A block or checkpoint failed verification.  Nothing of it was written."""


class ProposalFault(BlockRejected):
    """A proposed block is not what its transactions give: an offense of who has proposed it."""


class DatabaseError(FastnodeError):
    """LevelDB failed or holds something impossible."""


class HistoryUnavailable(DatabaseError):
    """The state trees have no history at the block to which they must return."""


class DatabaseFull(DatabaseError):
    """There is no room for a write; nothing was changed, and the same write may do later."""


class DatabaseUnwritable(DatabaseError):
    """The disk refused a write; LevelDB writes nothing more until it is opened again."""


class DatabaseUnreadable(DatabaseError):
    """A read met a damaged block or a disk that fails.  The operator is told by the database itself, once."""


# ---- of the Python API --------------------------------------------------------------------


class ClientError(FastnodeError):
    """A call to a node gave no result."""


class CallRejected(ClientError):
    """The node answered with a JSON-RPC error: ``code``, ``message`` and ``data`` are its own."""

    def __init__(self, method: str, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{method}: {message} (code {code})")
        self.method, self.code, self.message, self.data = method, code, message, data


class NoAnswer(ClientError):
    """The node cannot be reached, takes too long, is busy, or what answers is no node."""


class VerificationError(FastnodeError):
    """Data of a node that does not prove what it should; the text says what is wrong."""


# ---- public execution ---------------------------------------------------------------------


class CallHalted(FastnodeError):
    """An exceptional halt of one call of public execution: it fails and loses all its gas; the text is the reason."""


class TxExecutionError(FastnodeError):
    """A transaction that cannot be included in a block at all; the text is the reason."""


class ExecutionLimitExceeded(Refused):
    """Execution was given up because it needs more than it may use here."""


class ExecutionTimeExceeded(ExecutionLimitExceeded):
    def __init__(self) -> None:
        super().__init__("Public execution takes longer than this node allows")


class ExecutionMemoryExceeded(ExecutionLimitExceeded):
    """``limit`` is in bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"Public execution needs more than the {limit} bytes of memory that this node allows")
        self.limit = limit


class ExecutionOutOfMemory(ExecutionLimitExceeded):
    def __init__(self) -> None:
        super().__init__("Public execution needs more memory than is left for it now; try again later")


class ExecutionCancelled(ExecutionLimitExceeded):
    def __init__(self) -> None:
        super().__init__("Public execution was cancelled")


# ---- proposing ----------------------------------------------------------------------------


class SlotLost(FastnodeError):
    """This node's checkpoint of a slot will not be on L1: one line says why.  The next slot is another chance."""


class EpochNotProven(FastnodeError):
    """No proof of an epoch is on L1 (yet): one line says why."""


# ---- duties that several nodes share ------------------------------------------------------


class HaDatabaseError(StartError):
    """The database of duties cannot be reached, or refuses."""


class HaDatabaseUnreachable(HaDatabaseError):
    """No connection to the database of duties can be made; a retry may succeed."""


class DutyError(FastnodeError):
    """A duty must not be signed by this node."""


class DutyAlreadySigned(DutyError):
    """Another node has signed it; ``signature`` is what it made, of the same message."""

    def __init__(self, message: str, signature: bytes) -> None:
        super().__init__(message)
        self.signature = signature


class DutyConflict(DutyError):
    """Another message has been begun or signed for the same duty; signing a second one is the offense."""


class DutyInProgress(DutyError):
    """Another node is signing it and has not finished in time."""


class DutyLockLost(DutyError):
    """The lock was cleaned up before the signature was recorded, so another node may have signed."""


# ---- writing to L1 --------------------------------------------------------------------------


class SigningError(FastnodeError):
    """There is no such key, or the remote signer that has it does not sign."""


class CallReverted(FastnodeError):
    """A contract of L1 refuses a call.  ``name`` and ``values`` are those of its error, as far as they are known;
    ``data`` is the error as it came."""

    def __init__(self, message: str, name: str, values: Sequence[Any] = (), data: bytes = b"") -> None:
        super().__init__(message)
        self.name, self.values, self.data = name, tuple(values), data


class NotTaken(FastnodeError):
    """L1 does not accept a transaction.  Without ``is_certain`` a node that gave no answer may have accepted it."""

    def __init__(self, message: str, *, is_certain: bool = True) -> None:
        super().__init__(message)
        self.is_certain = is_certain


class NoPublisher(FastnodeError):
    """No account can send a transaction to L1 now."""


# ---- other nodes --------------------------------------------------------------------------


class UpstreamError(FastnodeError):
    """Another node gave no usable answer."""


class UpstreamUnavailable(UpstreamError):
    """It cannot be reached, takes too long, or says that it is busy.  ``retry_after_s``: when it wants to be asked."""

    def __init__(self, reason: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class UpstreamRateLimited(UpstreamUnavailable):
    """It rejects calls because of a rate limit."""


class UpstreamFault(UpstreamError):
    """It answers, but the answer is malformed or contradicts verified data."""


class UpstreamForbidden(UpstreamFault):
    """It rejects the API key, which is missing, wrong or used up."""


class OtherNetwork(UpstreamFault):
    """It is a node of another network, or of a release that this one does not follow."""


class AnswerTooLarge(UpstreamFault):
    """The answer, or what it would be read into, is larger than the one who asked has room for."""


class UpstreamRejection(UpstreamError):
    """Its answer is a JSON-RPC error: ``code``, ``message`` and ``data``.  The text of the exception is one line."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{one_line(message)} (code {code})")
        self.code, self.message, self.data = code, message, data


class UpstreamUndecided(UpstreamError):
    """One refuses a transaction, and none says whether it is known there: it may be in a block already."""


class PeerFault(FastnodeError):
    """A peer of the peer-to-peer network has sent what makes no sense or is too much: its connection ends."""


class PeerUnavailable(FastnodeError):
    """A peer cannot be reached, has left, or takes too long to answer."""


class MessagesUnavailable(FastnodeError):
    """A checkpoint inserts L1->L2 messages that no configured source can give."""


class NotOnL1(FastnodeError):
    """A checkpoint that another node has published is not on L1, as far as L1 can be seen."""


class BlobsUnavailable(FastnodeError):
    """No source has the blobs of a checkpoint (yet): the chain waits for them, nothing is left out.

    ``tried``: what each source said.
    """

    def __init__(self, checkpoint: int, missing: int, tried: Sequence[str]) -> None:
        sources = "; ".join(tried) or "none is configured"
        super().__init__(f"waiting for {missing} blobs of checkpoint {checkpoint} (sources tried: {sources})")
        self.checkpoint, self.missing, self.tried = checkpoint, missing, tuple(tried)
