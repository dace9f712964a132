"""Meanings of a number, a hash, an address or a few words: every meaning that they have on the served chain.

    17, latest, proven, ...    a block
    0x + up to 64 digits       block hash, archive root, tx hash, L1-to-L2 message, contract, contract class, emitter of
                               public logs, nullifier, note hash, tag of a log: whichever of them it is, all if several
    address:slot               a slot of a contract's public storage
    checkpoint 3, epoch 2      one of these
    log 42.0.1                 a public log: block, transaction in it, log in that
    newest                     tips, newest blocks and newest transactions
    blocks, transactions, checkpoints, epochs, pending, contracts, classes
                               a list; a number or hash behind it is where it begins

Each answer comes with the call that gives the same on the public port.  A fixed count of reads, and logs up to a limit.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import orjson

from fastnode.api.lookups import block_of_tip
from fastnode.archiver import forms
from fastnode.artifacts.naming import Naming
from fastnode.artifacts.store import ArtifactStore
from fastnode.errors import BlockPruned, DecodeError, Refused, ResponseTooLarge, RpcError
from fastnode.jsonrpc.methods import BoundMethod, Context, MethodTable, is_five_or_later
from fastnode.kernels import encode
from fastnode.log_index import layout
from fastnode.log_index.layout import TagCount, count_key
from fastnode.log_index.range_queries import AnswerLimits, find_public_logs, span_of_blocks, span_of_tx
from fastnode.mempool.ledger import ViewLedger
from fastnode.protocol.constants import NOTE_HASH_TREE_ID, NULLIFIER_TREE_ID
from fastnode.status_page import lists
from fastnode.status_page.abi import abi_tables
from fastnode.status_page.calls import contracts_and_keys, facts_of_calls, facts_of_failure, facts_of_tx
from fastnode.status_page.contract_txs import Call, calls_of_tx, touching_txs
from fastnode.status_page.effects import contract_fact, event_fact, tables_of
from fastnode.status_page.findings import Document, Fact, Finding, Table, fee_juice, hex_of, time_of
from fastnode.view import View

if TYPE_CHECKING:
    from fastnode.archiver.queries import BlockInfo
    from fastnode.protocol.artifacts import Artifact

__all__ = ["TRACE_METHOD", "Explorer"]

QUERY_MAX: Final = 200
#: Characters of a document that are given; a browser shows no more at ease.
DOCUMENT_MAX: Final = 600_000
#: Transactions of a block that are listed.
TXS_LISTED: Final = 100
LOGS_LISTED: Final = 20
#: Places of a contract's storage that are read.
SLOTS_LISTED: Final = 40
#: Traces that are made at a time for those who look at pages, and bytes of one.
TRACES_MAX: Final = 2
TRACE_MAX: Final = 4 << 20
TRACE_METHOD: Final = "fastnode_traceTransaction"
_NO_TRACES: Final = "Traces are not public here: open the explorer of the admin port, or start with --public-traces."
LOGS_BYTES: Final = 100_000
#: Limit for answers that are looked into here; large ones are cut below.
_RESPONSE_BYTES_MAX: Final = 64 << 20

_NUMBER: Final = re.compile(r"[0-9]{1,10}", re.ASCII)
_BARE_HASH: Final = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
_STORAGE: Final = re.compile(r"(\S+?)(?:\s*[:/]\s*|\s+)(\S+)")
_TIPS: Final = ("proposed", "checkpointed", "proven", "finalized")
_LIST: Final = re.compile(
    r"(newest|blocks|transactions|checkpoints|epochs|pending|contracts|classes)(?:\s+(\S+))?", re.IGNORECASE
)
_ONE: Final = re.compile(r"(checkpoint|epoch)\s+([0-9]{1,10})", re.ASCII | re.IGNORECASE)
_CALLS: Final = re.compile(r"calls\s+(\S+)(?:\s+(\S+))?", re.IGNORECASE)
_LOG: Final = re.compile(r"log\s+([0-9]{1,10})\.([0-9]{1,10})\.([0-9]{1,10})", re.ASCII | re.IGNORECASE)
_HINT: Final = "a block number, a hash, an address, or address:slot"
#: Characters of a stored transaction that are read for what it is; one with the largest proofs has fewer.
_TX_MAX: Final = 1 << 20


class Explorer:
    """Answers from one view each time, through the methods of ``table``, which are not counted as calls."""

    def __init__(
        self,
        table: MethodTable,
        name_of: Callable[[bytes], str | None] = lambda selector: None,
        artifacts: ArtifactStore | None = None,
        trace_method: BoundMethod | None = None,
    ) -> None:
        """``name_of`` tells the names of functions by their selectors, as far as they are known; ``artifacts`` those of
        contracts.  ``trace_method`` None: there are no traces here."""
        # It asks for what 5.x and later have no methods for, such as public logs of all contracts.
        self._table = table.in_set("both") if is_five_or_later(table.method_set) else table
        self._name_of = name_of
        self._artifacts = artifacts or ArtifactStore(None)
        self._trace_method = trace_method
        self._traces = threading.BoundedSemaphore(TRACES_MAX)

    def find(self, view: View | None, text: str) -> bytes:
        """``{"query", "found": [Finding], "message"}``; the message says why nothing was found."""
        query = text.strip()
        try:
            if view is None:
                raise _NoAnswer("The node has not loaded its chain yet.")
            found = list(_Search(self._table, view, self._name_of, self._artifacts).meanings(query))
            message = None if found else _nothing_on(view)
        except (_NoAnswer, BlockPruned) as error:
            found, message = [], str(error)
        shown = [asdict(finding) for finding in found]
        return orjson.dumps({"query": _printable(query[:QUERY_MAX]), "found": shown, "message": message})

    @property
    def trace_threads(self) -> Executor | None:
        """Threads of all traces of the node."""
        return None if self._trace_method is None else self._trace_method.threads

    def trace(self, view: View | None, text: str) -> bytes:
        """``{"trace": TransactionTrace, "message"}`` of a transaction; the message says why there is none.

        In a thread, and few at a time: nobody is charged for it.
        """
        trace, message = None, None
        if not self._traces.acquire(blocking=False):
            message = f"{TRACES_MAX} traces are being made for this page; try again in a moment."
        else:
            try:
                trace = self._trace(view, text)
            except (_NoAnswer, RpcError, Refused) as error:
                message = str(error)
            finally:
                self._traces.release()
        return b'{"trace":%b,"message":%b}' % (trace or b"null", orjson.dumps(message))

    def _trace(self, view: View | None, text: str) -> bytes:
        method = self._trace_method
        if method is None:
            raise _NoAnswer(_NO_TRACES)
        if view is None:
            raise _NoAnswer("The node has not loaded its chain yet.")
        context = Context(view, self._table.method_set, TRACE_MAX)
        try:
            found = method.answer(context, [text])
        except ResponseTooLarge:
            raise _NoAnswer(f"The trace is too large for a page: fastnode trace {text} shows it.") from None
        if found is None:
            raise _NoAnswer("No such transaction is known.")
        return found

    def block(self, view: View | None, number: int) -> bytes | None:
        """A block with the effects of all its transactions, as JSON; None if there is none.  BlockPruned."""
        return None if view is None else view.chain.blocks.text(forms.JOINT_BLOCK, number)


def _nothing_on(view: View) -> str:
    first = view.chain.oldest_body
    pruned = "" if first == 1 else f" Logs of blocks before {first} are pruned, and were not looked through."
    return f"Nothing on this chain has this hash or address.{pruned}"


class _NoAnswer(Exception):  # noqa: N818 - said to a person
    """A text that means nothing, or something that is not there."""


class _Search:
    def __init__(
        self, table: MethodTable, view: View, name_of: Callable[[bytes], str | None], artifacts: ArtifactStore
    ) -> None:
        self._table = table
        self._view = view
        self._name_of = name_of
        self._chain = view.chain
        self._naming = Naming(artifacts, view.chain, name_of)
        #: Contracts that the transaction calls which is looked at, as far as it is kept.
        self._called: list[bytes] = []

    def meanings(self, query: str) -> Iterator[Finding]:
        if not query or len(query) > QUERY_MAX:
            raise _NoAnswer(f"Enter {_HINT}.")
        if _NUMBER.fullmatch(query) or query.lower() in ("latest", *_TIPS):
            yield self._block(self._number_of(query.lower()))
        elif (words := _LIST.fullmatch(query)) is not None:
            yield self._list(words[1].lower(), words[2])
        elif (words := _ONE.fullmatch(query)) is not None:
            yield self._one(words[1].lower(), int(words[2]))
        elif (words := _CALLS.fullmatch(query)) is not None:
            start = (self._chain.tip_number, lists.LAST_PLACE) if words[2] is None else _place(words[2])
            yield touching_txs(self._chain, _field(words[1]), start, self._calls_of, self._naming)
        elif (words := _LOG.fullmatch(query)) is not None:
            yield self._log(int(words[1]), int(words[2]), int(words[3]))
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
        meanings = (
            self._transaction,
            self._contract,
            self._contract_class,
            self._public_logs,
            self._message,
            self._nullifier,
            self._note_hash,
            self._private_tag,
            self._public_tag,
            self._account,
        )
        yield from (finding for meaning in meanings if (finding := meaning(value)) is not None)

    # ---- lists ---------------------------------------------------------------------------------------

    def _list(self, name: str, start: str | None) -> Finding:
        chain = self._chain
        if name == "pending":
            return self._pending(None if start is None else _field(start))
        if name in ("contracts", "classes"):
            first = None if start is None else _field(start)
            make_list = lists.contract_list if name == "contracts" else lists.class_list
            return make_list(chain, first, self._naming)
        if name == "newest":
            return lists.newest(self._view)
        if name == "transactions":
            return lists.tx_list(chain, None if start is None else _place(start))
        newest = None
        if start is not None:
            if _NUMBER.fullmatch(start) is None:
                raise _NoAnswer(f"After {name} there may be a number.")
            newest = int(start)
        make = {"blocks": lists.block_list, "checkpoints": lists.checkpoint_list, "epochs": lists.epoch_list}[name]
        return make(chain, newest)

    def _pending(self, after: bytes | None) -> Finding:
        """Transactions of the pool by falling priority."""
        params: list[Any] = [lists.PAGE_ROWS] if after is None else [lists.PAGE_ROWS, hex_of(after)]
        count = next((document.json for document in self._ask("node_getPendingTxCount")), None)
        found = self._result("node_getPendingTxs", *params)
        txs = [] if found is None else orjson.loads(found)
        rows = []
        for tx in txs:
            known = facts_of_tx(tx, self._naming.release, self._name_of)
            of = {fact.name: fact for fact in known}
            calls = sum(name.startswith("Public call") for name in of)
            payer, fee = (of.get(name, Fact(name, "")) for name in ("Fee payer", "Fee at most"))
            rows.append([Fact("Transaction", tx["txHash"], tx["txHash"]), payer, fee, Fact("Public calls", str(calls))])
        table = Table(["Transaction", "Fee payer", "Fee at most", "Public calls"], rows)
        more = [Fact("Next", "page", f"pending {txs[-1]['txHash']}")] if len(txs) == lists.PAGE_ROWS else []
        return Finding("list", f"Pending transactions: {count or 0}", table=table, more=more)

    def _one(self, name: str, number: int) -> Finding:
        if name == "epoch":
            if (found := lists.epoch(self._chain, number)) is None:
                raise _NoAnswer(f"Epoch {number} has no complete checkpoint.")
            return found
        checkpoint = self._chain.checkpoint(number)
        if checkpoint is None:
            raise _NoAnswer(f"There is no complete checkpoint {number}.")
        facts, table = lists.checkpoint_facts(self._chain, checkpoint)
        documents = self._ask("node_getCheckpoints", number, 1)
        near = [number + 1, number - 1]
        more = [
            Fact(word, f"checkpoint {other}", f"checkpoint {other}")
            for word, other in zip(("Next", "Before"), near, strict=True)
            if self._chain.checkpoint(other) is not None
        ]
        return Finding("checkpoint", f"Checkpoint {number}", facts, documents, table=table, more=more)

    def _log(self, block: int, tx_index: int, log_index: int) -> Finding:
        span = span_of_tx(block, tx_index)
        if log_index:
            span = span.from_after((block, tx_index, log_index - 1))
        found = find_public_logs(self._chain, span, AnswerLimits(1, LOGS_BYTES))
        log = orjson.loads(found.logs[0]) if found.logs else None
        if log is None or log["id"]["logIndex"] != log_index:
            raise _NoAnswer(f"There is no public log {block}.{tx_index}.{log_index}.")
        address, tx_hash = log["log"]["contractAddress"], log["id"]["txHash"]
        event = event_fact(address, log["log"]["fields"], self._naming)
        facts = [
            Fact("Block", str(block), str(block)),
            Fact("Transaction", tx_hash, tx_hash),
            contract_fact(address, self._naming),
            *([] if event.query is not None else [event]),
            *(Fact(f"Field {place}", value) for place, value in enumerate(log["log"]["fields"])),
        ]
        return Finding("log", f"Public log {block}.{tx_index}.{log_index}", facts)

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
        yield Fact("Hash", hex_of(info.hash), hex_of(info.hash))
        yield Fact("Status", self._chain.block_status(info.number).decode())
        yield Fact("Made", time_of(info.timestamp))
        yield Fact("Slot", str(info.slot_number))
        of_checkpoint = f"{info.checkpoint_number}, block {info.index_within_checkpoint + 1} of it"
        is_complete = self._chain.checkpoint(info.checkpoint_number) is not None
        yield Fact("Checkpoint", of_checkpoint, f"checkpoint {info.checkpoint_number}" if is_complete else None)
        yield Fact("Archive root after it", hex_of(info.archive_root))
        yield Fact("Transactions", str(info.tx_count))
        if 0 < info.number < self._chain.oldest_body:
            yield Fact("Pruned", f"effects and logs: they are kept from block {self._chain.oldest_body} on")
        hashes = self._chain.tx_hashes(info.number) or []
        for index, tx_hash in enumerate(hashes[:TXS_LISTED]):
            yield Fact(f"Transaction {index}", hex_of(tx_hash), hex_of(tx_hash))
        if len(hashes) > TXS_LISTED:
            yield Fact("More transactions", str(len(hashes) - TXS_LISTED))

    def _transaction(self, tx_hash: bytes) -> Finding | None:
        text = hex_of(tx_hash)
        location = self._chain.tx_location(tx_hash)
        if location is None:
            pending = self._ask("node_getTxByHash", text)
            if not pending:
                return None
            facts = [Fact("Status", "pending"), *self._facts_of_pool(text)]
            documents = self._ask("node_getTxReceipt", text) + pending
            return Finding("transaction", "Pending transaction", facts, documents, trace=self._trace_of(text))
        number = str(location.block_number)
        facts = [
            Fact("Status", self._chain.block_status(location.block_number).decode()),
            Fact("Block", number, number),
            Fact("Index in block", str(location.index_in_block)),
        ]
        if location.block_number < self._chain.oldest_body:
            facts.append(Fact("Pruned", f"effects and logs: they are kept from block {self._chain.oldest_body} on"))
        documents = self._ask("node_getTxReceipt", text) + self._ask("node_getTxEffect", text)
        for document in documents[:1]:
            receipt = orjson.loads(document.json or "{}")
            facts.append(Fact("Result", str(receipt.get("executionResult", ""))))
            facts.append(Fact("Fee", fee_juice(int(receipt.get("transactionFee", 0)))))
        # Methods of a local network; elsewhere the pool has the calls until the transaction is final.
        calls, failure = self._ask("fastnode_getTxCalls", text), self._ask("fastnode_getTxFailure", text)
        for document in calls:
            facts += facts_of_calls(orjson.loads(document.json or "[]"))
        if not calls:
            facts += self._facts_of_pool(text)
        for document in failure:
            facts += facts_of_failure(orjson.loads(document.json or "{}"))
        effect = next((doc.json for doc in documents if doc.method == "node_getTxEffect"), None)
        tables = []
        if effect is not None:
            place = location.block_number, location.index_in_block
            tables = tables_of(orjson.loads(effect)["data"], *place, self._naming, self._called)
        documents += calls + failure
        return Finding("transaction", "Transaction", facts, documents, tables=tables, trace=self._trace_of(text))

    def _trace_of(self, tx_hash: str) -> str | None:
        return tx_hash if self._table.method(TRACE_METHOD) is not None else None

    def _facts_of_pool(self, tx_hash: str) -> list[Fact]:
        """Content of the transaction itself; it is kept while it waits, until it is final, or longer on request."""
        found = self._result("node_getTxByHash", tx_hash) or self._result("fastnode_getKeptTx", tx_hash)
        if found is None or len(found) > _TX_MAX:
            return []
        record = orjson.loads(found)
        self._called, keys = contracts_and_keys(record, self._naming.release)
        self._naming.note_keys(keys)
        return facts_of_tx(record, self._naming.release, self._name_of, self._naming)

    def _contract(self, address: bytes) -> Finding | None:
        text = hex_of(address)
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
        block = self._chain.get(layout.CONTRACT_INSTANCE + address)
        since = 0 if block is None else int.from_bytes(block[: layout.BLOCK_BYTES], "big")
        facts.append(Fact("Since block", str(since), str(since)))
        if self._view.state is not None:
            facts.append(Fact("Fee juice", fee_juice(ViewLedger(self._view).fee_juice_balance(address))))
        facts.append(Fact("Transactions", "that called or touched it", f"calls {text}"))
        facts.append(Fact("A slot of its public storage", f"{text}:0", f"{text}:0"))
        artifact = self._naming.artifact_of(address)
        if artifact is None:
            facts.append(Fact("Names", "not known: its artifact is not registered here"))
            return Finding("contract", "Contract", facts, documents)
        tables = [self._storage_table(text, artifact), *abi_tables(artifact)]
        shown = [table for table in tables if table.rows]
        return Finding("contract", f"Contract {artifact.name}", facts, documents, tables=shown)

    def _calls_of(self, tx_hash: str) -> list[Call] | None:
        """Public calls of a transaction: all that a local network has run, else those that a kept one asks for."""
        run = self._result("fastnode_getTxCalls", tx_hash)
        if run is not None:
            return [
                (call["contractAddress"], call.get("functionName") or call.get("functionSelector") or "no function")
                for call in orjson.loads(run)
            ]
        kept = self._result("node_getTxByHash", tx_hash) or self._result("fastnode_getKeptTx", tx_hash)
        try:
            return None if kept is None else calls_of_tx(orjson.loads(kept), self._naming)
        except DecodeError:
            return None

    def _storage_table(self, address: str, artifact: Artifact) -> Table:
        """Places of storage by the layout.  Entries of a map, and what is private, are not where the layout says."""
        rows = []
        for name, slot in list(artifact.storage.items())[:SLOTS_LISTED]:
            value = self._result("node_getPublicStorageAt", self._chain.tip_number, address, f"{slot:#066x}")
            text = "" if value is None else value.decode().strip('"')
            rows.append(
                [
                    Fact("Name", name, f"{address}:{slot:#x}"),
                    Fact("Slot", str(slot)),
                    Fact("Value", "0, a map, or private" if not text.strip("0x") else text),
                ]
            )
        return Table(["Name", "Slot", "Value"], rows, "Storage")

    def _contract_class(self, class_id: bytes) -> Finding | None:
        documents = self._ask("node_getContractClass", hex_of(class_id))
        if not documents:
            return None
        artifact = self._naming.artifact_of_class(class_id)
        name = "" if artifact is None else f" {artifact.name}"
        tables = [] if artifact is None else [table for table in abi_tables(artifact) if table.rows]
        return Finding("class", f"Contract class{name}", [Fact("Id", hex_of(class_id))], documents, tables=tables)

    def _public_logs(self, contract: bytes) -> Finding | None:
        return self._found_logs("Public logs of this contract", contract=contract)

    def _found_logs(self, title: str, *, contract: bytes | None = None, tag: bytes | None = None) -> Finding | None:
        """The first logs: newer ones may be many, and are found by block on the public port."""
        first = self._chain.oldest_body
        span = span_of_blocks(first, self._chain.tip_number + 1)
        limits = AnswerLimits(LOGS_LISTED, LOGS_BYTES)
        found = find_public_logs(self._chain, span, limits, contract=contract, tag=tag)
        if not found.logs:
            return None
        rows = []
        for log in map(orjson.loads, found.logs):
            place = ".".join(str(log["id"][name]) for name in ("blockNumber", "txIndex", "logIndex"))
            address, fields = log["log"]["contractAddress"], log["log"]["fields"]
            cells = [Fact("Log", place, f"log {place}"), contract_fact(address, self._naming)]
            cells += [
                event_fact(address, fields, self._naming),
                Fact("Transaction", log["id"]["txHash"], log["id"]["txHash"]),
            ]
            rows.append([*cells, Fact("Fields", str(len(fields)))])
        logs = '{"logs":[' + b",".join(found.logs).decode() + "]}"
        asked: dict[str, Any] = {
            name: hex_of(value) for name, value in (("contractAddress", contract), ("tag", tag)) if value is not None
        }
        documents = [Document("node_getPublicLogs", [asked], logs, len(logs))]
        count = f"the first {len(found.logs)}" if found.is_cut else str(len(found.logs))
        table = Table(["Log", "Contract", "Event", "Transaction", "Fields"], rows)
        facts = [Fact("Shown", count)]
        if first > 1:
            asked["fromBlock"] = first
            facts.append(Fact("Pruned", f"logs of blocks before {first}"))
        return Finding("logs", title, facts, documents, table=table)

    def _message(self, message: bytes) -> Finding | None:
        index = self._chain.l1_to_l2_message_index(message)
        if index is None:
            return None
        facts = [Fact("Leaf of the message tree", str(index))]
        return Finding("message", "Message from L1", facts)

    def _nullifier(self, value: bytes) -> Finding | None:
        return self._leaf("nullifier", "Nullifier", NULLIFIER_TREE_ID, value)

    def _note_hash(self, value: bytes) -> Finding | None:
        return self._leaf("note hash", "Note hash", NOTE_HASH_TREE_ID, value)

    def _leaf(self, kind: str, title: str, tree: int, value: bytes) -> Finding | None:
        if not any(value):
            return None
        documents = self._ask("node_findLeavesIndexes", self._chain.tip_number, tree, [hex_of(value)])
        found = orjson.loads(documents[0].json or "[null]")[0] if documents else None
        if found is None:
            return None
        block = str(found["l2BlockNumber"])
        facts = [Fact("Leaf of the tree", found["data"]), Fact("Block", block, block)]
        return Finding(kind, title, facts, documents)

    def _private_tag(self, tag: bytes) -> Finding | None:
        documents = self._ask("node_getPrivateLogsByTags", [hex_of(tag)])
        logs = orjson.loads(documents[0].json or "[[]]")[0] if documents else []
        stored = None if logs else self._chain.get(count_key(tag))
        if stored is not None:
            facts = [Fact("Logs", str(TagCount.decode(stored).logs)), Fact("Pruned", "some or all of them")]
            return Finding("tag", "Private logs with this tag", facts)
        if not logs:
            return None
        facts = [Fact("On the first page", str(len(logs)))]
        facts += [Fact(f"Transaction {place}", log["txHash"], log["txHash"]) for place, log in enumerate(logs)]
        return Finding("tag", "Private logs with this tag", facts, documents)

    def _public_tag(self, tag: bytes) -> Finding | None:
        return self._found_logs("Public logs whose first field this is", tag=tag)

    def _account(self, address: bytes) -> Finding | None:
        """Fee juice of the accounts that have some."""
        if self._chain.contract_instance_json(address) or self._chain.get(layout.CONTRACT_INSTANCE + address):
            return None  # said with the contract
        balance = 0 if self._view.state is None else ViewLedger(self._view).fee_juice_balance(address)
        return (
            Finding("balance", "Fee juice of this address", [Fact("Balance", fee_juice(balance))]) if balance else None
        )

    def _storage(self, contract: bytes, slot: bytes) -> Finding:
        documents = self._ask("node_getPublicStorageAt", self._chain.tip_number, hex_of(contract), hex_of(slot))
        if not documents:
            raise _NoAnswer("Public storage cannot be read now: the state is not at the newest block yet.")
        facts = [
            Fact("Contract", hex_of(contract), hex_of(contract)),
            Fact("Slot", hex_of(slot)),
            Fact("Value", (documents[0].json or "").strip('"')),
            Fact("At block", str(self._chain.tip_number), str(self._chain.tip_number)),
        ]
        return Finding("storage", "Public storage", facts, documents)

    # ---- calls ---------------------------------------------------------------------------------------

    def _ask(self, name: str, *params: Any) -> list[Document]:
        """Answer of the public port; nothing if it has nothing, an error, or not this method."""
        result = self._result(name, *params)
        if result is None:
            return []
        text = result.decode() if len(result) <= DOCUMENT_MAX else None
        return [Document(name, list(params), text, len(result))]

    def _result(self, name: str, *params: Any) -> bytes | None:
        method = self._table.method(name)
        if method is None:
            return None
        try:
            return method.answer(Context(self._view, self._table.method_set, _RESPONSE_BYTES_MAX), list(params))
        except (RpcError, Refused):
            return None


def _place(text: str) -> tuple[int, int]:
    """A block and a place in it, as in 42.0; the block alone: all of it."""
    block, _, place = text.partition(".")
    if _NUMBER.fullmatch(block) is None or (place and _NUMBER.fullmatch(place) is None):
        raise _NoAnswer("After transactions there may be a block number, or a block and a place: 42.0.")
    return int(block), int(place or lists.LAST_PLACE)


def _field(text: str) -> bytes:
    if _BARE_HASH.fullmatch(text):
        text = "0x" + text
    try:
        return encode.field_from_text(text)
    except ValueError:
        raise _NoAnswer(f"This is no {_HINT.removeprefix('a ')}.") from None


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
