"""What a number, a hash or an address is: every meaning that it has on the served chain.

    17, latest, proven, ...    a block
    0x + up to 64 digits       block hash, archive root, tx hash, L1-to-L2 message, contract, contract class,
                               emitter of public logs: whichever of them it is, all of them if it is several
    address:slot               a slot of a contract's public storage

Each answer comes with the call that gives the same on the public port.  A fixed count of reads, and logs up to a limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from fastnode.api.chain_records import joint_block
from fastnode.api.lookups import block_of_tip
from fastnode.errors import Refused, RpcError
from fastnode.jsonrpc.methods import Context, MethodTable
from fastnode.kernels import encode
from fastnode.log_index.range_queries import AnswerLimits, find_public_logs, span_of_blocks
from fastnode.records import dataclass
from fastnode.view import View

if TYPE_CHECKING:
    from fastnode.archiver.queries import BlockInfo

__all__ = ["Explorer"]

QUERY_MAX: Final = 200
#: Characters of a document that are given; a browser shows no more at ease.
DOCUMENT_MAX: Final = 600_000
#: Transactions of a block that are listed.
TXS_LISTED: Final = 100
LOGS_LISTED: Final = 20
LOGS_BYTES: Final = 100_000
#: Of answers that are looked into here; large ones are cut below.
_RESPONSE_BYTES_MAX: Final = 64 << 20

_NUMBER: Final = re.compile(r"[0-9]{1,10}", re.ASCII)
_BARE_HASH: Final = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
_STORAGE: Final = re.compile(r"(\S+?)(?:\s*[:/]\s*|\s+)(\S+)")
_TIPS: Final = ("proposed", "checkpointed", "proven", "finalized")
_HINT: Final = "a block number, a hash, an address, or address:slot"


@dataclass(frozen=True, slots=True)
class Fact:
    """``query`` is what the explorer would be asked for more about the value, if anything."""

    name: str
    value: str
    query: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """The result of a call as JSON text; None instead of a text that is too long."""

    method: str
    params: list[Any]
    json: str | None
    size: int


@dataclass(frozen=True, slots=True)
class Finding:
    kind: str
    title: str
    facts: list[Fact] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    #: The block that can be had whole.
    block: int | None = None


class Explorer:
    """Answers from one view each time, through the methods of ``table``, which are not counted as calls."""

    def __init__(self, table: MethodTable) -> None:
        self._table = table

    def find(self, view: View | None, text: str) -> bytes:
        """``{"query", "found": [Finding], "message"}``; the message says why nothing was found."""
        query = text.strip()
        try:
            if view is None:
                raise _NoAnswer("The node has not loaded its chain yet.")
            found = list(_Search(self._table, view).meanings(query))
            message = None if found else "Nothing on this chain has this hash or address."
        except _NoAnswer as error:
            found, message = [], str(error)
        shown = [asdict(finding) for finding in found]
        return orjson.dumps({"query": _printable(query[:QUERY_MAX]), "found": shown, "message": message})

    def block(self, view: View | None, number: int) -> bytes | None:
        """A block with the effects of all its transactions, as JSON; None if there is none."""
        block = None if view is None else view.chain.block(number)
        return None if view is None or block is None else joint_block(view.chain, block)


class _NoAnswer(Exception):  # noqa: N818 - said to a person
    """A text that means nothing, or something that is not there."""


class _Search:
    def __init__(self, table: MethodTable, view: View) -> None:
        self._table = table
        self._view = view
        self._chain = view.chain

    def meanings(self, query: str) -> Iterator[Finding]:
        if not query or len(query) > QUERY_MAX:
            raise _NoAnswer(f"Enter {_HINT}.")
        if _NUMBER.fullmatch(query) or query.lower() in ("latest", *_TIPS):
            yield self._block(self._number_of(query.lower()))
        elif (storage := _STORAGE.fullmatch(query)) is not None:
            yield self._storage(_field(storage[1]), _field(storage[2]))
        else:
            yield from self._named(_field(query))

    def _number_of(self, query: str) -> int:
        if query in _TIPS:
            return block_of_tip(self._chain, query)
        tip = self._chain.tip_number
        number = tip if query == "latest" else int(query)
        if number > tip:
            raise _NoAnswer(f"There is no block {number} yet; the newest is {tip}.")
        return number

    def _named(self, value: bytes) -> Iterator[Finding]:
        """Everything that a field element names."""
        number = self._chain.block_number_by_hash(value)
        if number is None:
            number = self._chain.block_number_by_archive(value)
        if number is not None:
            yield self._block(number)
        meanings = (self._transaction, self._contract, self._contract_class, self._public_logs, self._message)
        yield from (finding for meaning in meanings if (finding := meaning(value)) is not None)

    # ---- meanings ------------------------------------------------------------------------------------

    def _block(self, number: int) -> Finding:
        info = self._chain.block_info(number)
        assert info is not None  # not above the tip of the same view
        facts = list(self._facts_of_block(info))
        if number < self._chain.tip_number:
            facts.append(Fact("Next block", str(number + 1), str(number + 1)))
        if number > 0:
            facts.append(Fact("Block before", str(number - 1), str(number - 1)))
        return Finding("block", f"Block {number}", facts, self._ask("node_getBlockHeader", number), block=number)

    def _facts_of_block(self, info: BlockInfo) -> Iterator[Fact]:
        yield Fact("Hash", _hex(info.hash), _hex(info.hash))
        yield Fact("Status", self._chain.block_status(info.number).decode())
        yield Fact("Made", f"@{info.timestamp}")
        yield Fact("Slot", str(info.slot_number))
        yield Fact("Checkpoint", f"{info.checkpoint_number}, block {info.index_within_checkpoint + 1} of it")
        yield Fact("Archive root after it", _hex(info.archive_root))
        yield Fact("Transactions", str(info.tx_count))
        hashes = self._chain.tx_hashes(info.number) or []
        for index, tx_hash in enumerate(hashes[:TXS_LISTED]):
            yield Fact(f"Transaction {index}", _hex(tx_hash), _hex(tx_hash))
        if len(hashes) > TXS_LISTED:
            yield Fact("More transactions", str(len(hashes) - TXS_LISTED))

    def _transaction(self, tx_hash: bytes) -> Finding | None:
        text = _hex(tx_hash)
        location = self._chain.tx_location(tx_hash)
        if location is None:
            pending = self._ask("node_getTxByHash", text)
            if not pending:
                return None
            facts = [Fact("Status", "pending")]
            return Finding("transaction", "Pending transaction", facts, self._ask("node_getTxReceipt", text) + pending)
        number = str(location.block_number)
        facts = [
            Fact("Status", self._chain.block_status(location.block_number).decode()),
            Fact("Block", number, number),
            Fact("Index in block", str(location.index_in_block)),
        ]
        documents = self._ask("node_getTxReceipt", text) + self._ask("node_getTxEffect", text)
        # Methods of a local network; elsewhere there are none.
        calls, failure = self._ask("fastnode_getTxCalls", text), self._ask("fastnode_getTxFailure", text)
        for document in calls:
            facts += _facts_of_calls(orjson.loads(document.json or "[]"))
        for document in failure:
            facts += _facts_of_failure(orjson.loads(document.json or "{}"))
        return Finding("transaction", "Transaction", facts, documents + calls + failure)

    def _contract(self, address: bytes) -> Finding | None:
        text = _hex(address)
        documents = self._ask("node_getContract", text)
        if not documents:
            return None
        facts = [Fact("Address", text)]
        instance = orjson.loads(documents[0].json or "{}")
        for name, key in (
            ("Class", "currentContractClassId"),
            ("First class", "originalContractClassId"),
            ("Deployer", "deployer"),
        ):
            if isinstance(value := instance.get(key), str):
                facts.append(Fact(name, value, value if value.strip("0x") else None))
        facts.append(Fact("A slot of its public storage", f"{text}:0", f"{text}:0"))
        return Finding("contract", "Contract", facts, documents)

    def _contract_class(self, class_id: bytes) -> Finding | None:
        documents = self._ask("node_getContractClass", _hex(class_id))
        if not documents:
            return None
        return Finding("class", "Contract class", [Fact("Id", _hex(class_id))], documents)

    def _public_logs(self, contract: bytes) -> Finding | None:
        """The first logs of a contract: newer ones may be many, and are found by block on the public port."""
        span = span_of_blocks(0, self._chain.tip_number + 1)
        found = find_public_logs(self._chain, span, AnswerLimits(LOGS_LISTED, LOGS_BYTES), contract=contract)
        if not found.logs:
            return None
        logs = '{"logs":[' + b",".join(found.logs).decode() + "]}"
        count = f"the first {len(found.logs)}" if found.is_cut else str(len(found.logs))
        documents = [Document("node_getPublicLogs", [{"contractAddress": _hex(contract)}], logs, len(logs))]
        return Finding("logs", "Public logs of this contract", [Fact("Shown", count)], documents)

    def _message(self, message: bytes) -> Finding | None:
        index = self._chain.l1_to_l2_message_index(message)
        if index is None:
            return None
        facts = [Fact("Leaf of the message tree", str(index))]
        return Finding("message", "Message from L1", facts)

    def _storage(self, contract: bytes, slot: bytes) -> Finding:
        documents = self._ask("node_getPublicStorageAt", self._chain.tip_number, _hex(contract), _hex(slot))
        if not documents:
            raise _NoAnswer("Public storage cannot be read now: the state is not at the newest block yet.")
        facts = [
            Fact("Contract", _hex(contract), _hex(contract)),
            Fact("Slot", _hex(slot)),
            Fact("Value", (documents[0].json or "").strip('"')),
            Fact("At block", str(self._chain.tip_number), str(self._chain.tip_number)),
        ]
        return Finding("storage", "Public storage", facts, documents)

    # ---- calls ---------------------------------------------------------------------------------------

    def _ask(self, name: str, *params: Any) -> list[Document]:
        """What the public port would answer; nothing if it has nothing, an error, or not this method."""
        method = self._table.method(name)
        if method is None:
            return []
        try:
            result = method.handler(
                Context(self._view, self._table.method_set, _RESPONSE_BYTES_MAX), *method.decode(list(params))
            )
        except (RpcError, Refused):
            return []
        if result is None:
            return []
        text = result.decode() if len(result) <= DOCUMENT_MAX else None
        return [Document(name, list(params), text, len(result))]


def _facts_of_calls(calls: list[dict[str, Any]]) -> Iterator[Fact]:
    for index, call in enumerate(calls):
        yield Fact(f"Public call {index}, {call['phase']}", _call_text(call), call["contractAddress"])


def _facts_of_failure(failure: dict[str, Any]) -> Iterator[Fact]:
    yield Fact("Reverted", str(failure.get("originalMessage", "")))
    # The first field names the message: its text is in the artifact of the contract, which a node does not have.
    for place, value in enumerate(failure.get("revertData") or ()):
        yield Fact(f"Revert data {place}", value)
    for depth, frame in enumerate(failure.get("functionErrorStack", ())):
        yield Fact(f"Revert stack {depth}", _call_text(frame), frame["contractAddress"])


def _call_text(frame: dict[str, Any]) -> str:
    """A function and its contract, with as much of the name as is known."""
    name = frame.get("functionName") or frame.get("functionSelector") or "no function"
    return f"{name} of {frame['contractAddress']}"


def _field(text: str) -> bytes:
    if _BARE_HASH.fullmatch(text):
        text = "0x" + text
    try:
        return encode.field_from_text(text)
    except ValueError:
        raise _NoAnswer(f"This is no {_HINT.removeprefix('a ')}.") from None


def _hex(value: bytes) -> str:
    return "0x" + value.hex()


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
