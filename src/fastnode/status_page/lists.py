"""Lists of the explorer: blocks, transactions, checkpoints, epochs, what is pending, contracts and classes, by pages.

Each page is a fixed count of reads, and says what to ask for to see the next one.  Contracts and classes come in the
order of their addresses and ids, which is that of the database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import orjson

from fastnode.archiver import layout as chain_layout
from fastnode.kernels import encode
from fastnode.log_index import layout
from fastnode.status_page.findings import Fact, Finding, Table, hex_of, time_of
from fastnode.view import View, tip_numbers

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.archiver.records import BlockInfo, StoredCheckpoint
    from fastnode.artifacts.naming import Naming

__all__ = [
    "LAST_PLACE",
    "LISTS",
    "PAGE_ROWS",
    "block_list",
    "checkpoint_list",
    "class_list",
    "contract_list",
    "epoch",
    "epoch_list",
    "newest",
    "tx_list",
    "txs_below",
]

PAGE_ROWS: Final = 25
#: Names that the explorer is asked for; ``pending`` needs the pool and is answered by the explorer itself.
LISTS: Final = ("newest", "blocks", "transactions", "checkpoints", "epochs", "pending", "contracts", "classes")
_FIELD_BYTES: Final = 32
#: A place behind any transaction of a block.
LAST_PLACE: Final = 999_999
#: Rows of a list on the first page.
_NEWEST_ROWS: Final = 8
#: Blocks that a page of transactions looks into.
_BLOCKS_LOOKED: Final = 100


def block_list(chain: ChainView, newest: int | None = None) -> Finding:
    """Blocks downwards from ``newest``."""
    first = chain.tip_number if newest is None else min(newest, chain.tip_number)
    numbers = range(first, max(-1, first - PAGE_ROWS), -1)
    table = _blocks(chain, numbers)
    return Finding(
        "list", f"Blocks {numbers[-1]} to {first}", table=table, more=_pages("blocks", first, chain.tip_number)
    )


def _blocks(chain: ChainView, numbers: range) -> Table:
    rows = []
    for number in numbers:
        info = chain.block_info(number)
        assert info is not None  # not above the tip of the same view
        rows.append(
            [
                Fact("Block", str(number), str(number)),
                Fact("Made", time_of(info.timestamp) if info.timestamp else "genesis"),
                Fact("Txs", str(info.tx_count)),
                Fact("Slot", str(info.slot_number)),
                Fact("Checkpoint", str(info.checkpoint_number), _checkpoint_query(info.checkpoint_number)),
                Fact("Status", chain.block_status(number).decode()),
                Fact("Hash", hex_of(info.hash), hex_of(info.hash)),
            ]
        )
    return Table(["Block", "Made", "Txs", "Slot", "Checkpoint", "Status", "Hash"], rows)


def tx_list(chain: ChainView, start: tuple[int, int] | None = None) -> Finding:
    """Transactions downwards from ``start``: a block, and a place in it."""
    block, place = (chain.tip_number, None) if start is None else (min(start[0], chain.tip_number), start[1])
    rows, following = _txs(chain, block, place, PAGE_ROWS)
    title = "Transactions" if rows else f"No transactions up to block {block}"
    more = (
        []
        if following is None
        else [Fact("Older", f"from block {following[0]}", "transactions {}.{}".format(*following))]
    )
    return Finding("list", title, table=Table(_TX_COLUMNS, rows), more=more)


_TX_COLUMNS: Final = ["Transaction", "Made", "Block", "Place", "Status"]


def _txs(
    chain: ChainView, block: int, place: int | None, rows_max: int
) -> tuple[list[list[Fact]], tuple[int, int] | None]:
    """Rows from a place downwards, and where the next page begins; None at the first block."""
    rows: list[list[Fact]] = []
    number: int | None = block
    for _ in range(_BLOCKS_LOOKED):
        number = None if number is None else _with_txs(chain, number)
        if number is None:
            return rows, None
        info, hashes = chain.block_info(number), chain.tx_hashes(number)
        if info is not None and hashes:
            last = len(hashes) - 1 if place is None or number < block else min(place, len(hashes) - 1)
            for index in range(last, -1, -1):
                if len(rows) == rows_max:
                    return rows, (number, index)
                rows.append(_tx_row(chain, info, index, hashes[index]))
        number = number - 1 if number else None
    return rows, (number, LAST_PLACE) if number else None


def txs_below(chain: ChainView, block: int, place: int) -> Iterator[tuple[BlockInfo, int, bytes]]:
    """Transactions from a place downwards: their blocks, places and hashes.  Place -1 of a block that has none, where
    headers do not say that."""
    number: int | None = min(block, chain.tip_number)
    while number is not None and (number := _with_txs(chain, number)) is not None:
        info, hashes = chain.block_info(number), chain.tx_hashes(number) or []
        assert info is not None  # not above the tip of the same view
        last = min(place, len(hashes) - 1) if number == block else len(hashes) - 1
        if not hashes:
            yield info, -1, b""
        for index in range(last, -1, -1):
            yield info, index, hashes[index]
        number = number - 1 if number else None


def _tx_row(chain: ChainView, info: BlockInfo, index: int, tx_hash: bytes) -> list[Fact]:
    return [
        Fact("Transaction", hex_of(tx_hash), hex_of(tx_hash)),
        Fact("Made", time_of(info.timestamp)),
        Fact("Block", str(info.number), str(info.number)),
        Fact("Place", str(index)),
        Fact("Status", chain.block_status(info.number).decode()),
    ]


def _with_txs(chain: ChainView, number: int) -> int | None:
    """The newest block up to ``number`` that has transactions; None: none has any.

    Each transaction adds leaves to the tree of note hashes, whose size is in every header: empty blocks are passed by
    in as many reads as their count has binary digits, twice.  Where headers do not say it this is ``number`` itself.
    """
    info = chain.block_info(number)
    size = _note_hashes(chain, number)
    if info is None or info.tx_count or size is None:
        return number
    step, high = 1, number
    while True:  # above ``low`` there is a block with transactions, and none above ``high``
        low = max(0, high - step)
        if _note_hashes(chain, low) != size:
            break
        if low == 0:
            return None
        high, step = low, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _note_hashes(chain, middle) == size else (middle, high)
    return high


def _note_hashes(chain: ChainView, number: int) -> int | None:
    """Leaves of the tree of note hashes after a block."""
    header = orjson.loads(chain.header_json(number) or b"{}")
    try:
        return int(header["state"]["partial"]["noteHashTree"]["nextAvailableLeafIndex"])
    except (KeyError, TypeError, ValueError):
        return None


def newest(view: View) -> Finding:
    """The first page: tips, newest blocks and newest transactions."""
    chain = view.chain
    tips = [Fact(name.capitalize(), str(number), str(number)) for name, number in tip_numbers(view).items()]
    first = chain.tip_number
    blocks = _blocks(chain, range(first, max(-1, first - _NEWEST_ROWS), -1))
    rows, _ = _txs(chain, first, None, _NEWEST_ROWS)
    tables = [Table(blocks.columns, blocks.rows, "Newest blocks")]
    if rows:
        tables.append(Table(_TX_COLUMNS, rows, "Newest transactions"))
    more = [Fact("All", "blocks", "blocks"), Fact("All", "transactions", "transactions")]
    return Finding("list", "Newest on this chain", tips, tables=tables, more=more)


def _checkpoint_query(number: int) -> str | None:
    return f"checkpoint {number}" if number else None


def _pages(name: str, first: int, newest: int) -> list[Fact]:
    more = []
    if first < newest:
        more.append(Fact("Newer", f"from {min(newest, first + PAGE_ROWS)}", f"{name} {min(newest, first + PAGE_ROWS)}"))
    if first >= PAGE_ROWS:
        more.append(Fact("Older", f"from {first - PAGE_ROWS}", f"{name} {first - PAGE_ROWS}"))
    return more


# ---- checkpoints and epochs ------------------------------------------------------------------------------


def newest_checkpoint(chain: ChainView) -> int:
    return chain.newest_complete_checkpoint(chain.tip_number)


def checkpoint_list(chain: ChainView, newest: int | None = None) -> Finding:
    """Complete checkpoints downwards from ``newest``."""
    last = newest_checkpoint(chain)
    first = last if newest is None else min(newest, last)
    numbers = range(first, max(0, first - PAGE_ROWS), -1)
    title = f"Checkpoints {numbers[-1]} to {first}" if numbers else "There is no complete checkpoint yet"
    return Finding("list", title, table=_checkpoints(chain, numbers), more=_pages("checkpoints", first, last))


def _checkpoints(chain: ChainView, numbers: range) -> Table:
    rows = [_checkpoint_row(chain, found) for number in numbers if (found := chain.checkpoint(number)) is not None]
    return Table(["Checkpoint", "Blocks", "Slot", "Epoch", "Status", "L1 block"], rows)


def _checkpoint_row(chain: ChainView, checkpoint: StoredCheckpoint) -> list[Fact]:
    own_epoch = checkpoint.slot_number // chain.chain.epoch_duration
    l1_block = orjson.loads(checkpoint.l1_json).get("blockNumber", "")
    return [
        Fact("Checkpoint", str(checkpoint.number), f"checkpoint {checkpoint.number}"),
        Fact("Blocks", _span(checkpoint.start_block, checkpoint.last_block), f"blocks {checkpoint.last_block}"),
        Fact("Slot", str(checkpoint.slot_number)),
        Fact("Epoch", str(own_epoch), f"epoch {own_epoch}"),
        Fact("Status", chain.block_status(checkpoint.last_block).decode()),
        Fact("L1 block", str(l1_block)),
    ]


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def checkpoint_facts(chain: ChainView, checkpoint: StoredCheckpoint) -> tuple[list[Fact], Table]:
    """Facts of one checkpoint, and its blocks."""
    facts = _checkpoint_row(chain, checkpoint)[1:]
    facts += [
        Fact("Header hash", hex_of(checkpoint.header_hash)),
        Fact("Out hash", hex_of(checkpoint.out_hash)),
        Fact("Messages from L1", str(len(chain.l1_to_l2_messages(checkpoint.number)))),
    ]
    return facts, _blocks(chain, range(checkpoint.last_block, checkpoint.start_block - 1, -1)[:PAGE_ROWS])


def epoch_list(chain: ChainView, newest: int | None = None) -> Finding:
    """Epochs that have a complete checkpoint, downwards from ``newest``."""
    last = _newest_epoch(chain)
    if last is None:
        return Finding("list", "There is no complete checkpoint yet")
    first = last if newest is None else min(newest, last)
    rows = []
    for number in range(first, max(-1, first - PAGE_ROWS), -1):
        checkpoints = chain.checkpoint_numbers_of_epoch(number)
        if checkpoints:
            found = [chain.checkpoint(checkpoints[0]), chain.checkpoint(checkpoints[-1])]
            assert found[0] is not None
            assert found[1] is not None
            rows.append(
                [
                    Fact("Epoch", str(number), f"epoch {number}"),
                    Fact("Checkpoints", _span(checkpoints[0], checkpoints[-1]), f"checkpoints {checkpoints[-1]}"),
                    Fact("Blocks", _span(found[0].start_block, found[1].last_block), f"blocks {found[1].last_block}"),
                    Fact("Status", chain.block_status(found[1].last_block).decode()),
                ]
            )
    table = Table(["Epoch", "Checkpoints", "Blocks", "Status"], rows)
    title = f"Epochs {max(0, first - PAGE_ROWS + 1)} to {first}"
    return Finding("list", title, table=table, more=_pages("epochs", first, last))


def _newest_epoch(chain: ChainView) -> int | None:
    newest = chain.checkpoint(newest_checkpoint(chain))
    return None if newest is None else newest.slot_number // chain.chain.epoch_duration


def epoch(chain: ChainView, number: int) -> Finding | None:
    """The checkpoints of an epoch; None if it has none that is complete."""
    numbers = chain.checkpoint_numbers_of_epoch(number)
    if not numbers:
        return None
    duration = chain.chain.epoch_duration
    facts = [
        Fact("Slots", _span(number * duration, (number + 1) * duration - 1)),
        Fact("Begins", time_of(chain.chain.l1_genesis_time + number * duration * chain.chain.slot_duration)),
        Fact("Checkpoints", str(len(numbers))),
    ]
    return Finding("epoch", f"Epoch {number}", facts, table=_checkpoints(chain, numbers[::-1][:PAGE_ROWS]))


# ---- contracts -------------------------------------------------------------------------------------------


def contract_list(chain: ChainView, start: bytes | None, naming: Naming) -> Finding:
    """Contracts by their addresses, from ``start`` on; those of the protocol on the first page."""
    return _published(
        chain,
        "contracts",
        "Contract",
        chain_layout.INSTANCE,
        layout.CONTRACT_INSTANCE,
        start,
        lambda _key, instance: _contract_row(instance, naming),
    )


def class_list(chain: ChainView, start: bytes | None, naming: Naming) -> Finding:
    return _published(
        chain,
        "classes",
        "Contract class",
        chain_layout.CLASS,
        layout.CONTRACT_CLASS,
        start,
        lambda key, found: [Fact("Name", naming.name_of_class(key) or "not known"), *_class_row(found)],
    )


def _contract_row(instance: dict[str, Any], naming: Naming) -> list[Fact]:
    class_id, deployer = instance["originalContractClassId"], instance["deployer"]
    name = naming.name_of_class(encode.from_hex(class_id))
    return [
        Fact("Class", name or class_id, class_id),
        Fact("Deployer", deployer, deployer if deployer.strip("0x") else None),
    ]


def _class_row(found: dict[str, Any]) -> list[Fact]:
    return [
        Fact("Functions", f"{len(found.get('privateFunctions', ()))} private ones known"),
            Fact("Public code", f"{len(found.get('packedBytecode', '')) * 3 // 4:,} bytes")]  # fmt: skip


def _published(
    chain: ChainView,
    name: str,
    column: str,
    of_genesis: bytes,
    of_blocks: bytes,
    start: bytes | None,
    row: Callable[[bytes, dict[str, Any]], list[Fact]],
) -> Finding:
    rows: list[list[Fact]] = []
    following: bytes | None = None
    if start is None:
        rows += [
            [_key_cell(column, key), Fact("Since block", "0"), *row(key, value)]
            for key, _, value in _read(chain, of_genesis)
        ]
    for count, (key, block, value) in enumerate(_read(chain, of_blocks, start or bytes(_FIELD_BYTES))):
        if count == PAGE_ROWS:
            following = key
            break
        rows.append([_key_cell(column, key), Fact("Since block", str(block), str(block)), *row(key, value)])
    columns = [cell.name for cell in rows[0]] if rows else [column]
    more = [] if following is None else [Fact("Next", "page", f"{name} {hex_of(following)}")]
    return Finding(
        "list",
        f"{column.replace('class', 'classe') if column.endswith('class') else column}s",
        table=Table(columns, rows),
        more=more,
    )


def _key_cell(column: str, key: bytes) -> Fact:
    return Fact(column, hex_of(key), hex_of(key))


def _read(
    chain: ChainView, prefix: bytes, start: bytes = bytes(_FIELD_BYTES)
) -> Iterator[tuple[bytes, int, dict[str, Any]]]:
    """Key, block and record of what is published, in the order of the keys."""
    for key, value in chain.scan(prefix + start, prefix + b"\xff" * _FIELD_BYTES + b"\0"):
        if len(key) != len(prefix) + _FIELD_BYTES:
            continue
        if prefix in (layout.CONTRACT_INSTANCE, layout.CONTRACT_CLASS):
            yield (
                key[len(prefix) :],
                int.from_bytes(value[: layout.BLOCK_BYTES], "big"),
                orjson.loads(value[layout.BLOCK_BYTES :]),
            )
        else:
            yield key[len(prefix) :], 0, orjson.loads(value)
