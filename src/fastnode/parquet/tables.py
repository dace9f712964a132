"""The tables of an export and their columns: the table behind the files, their verification and docs/analysis.md.

The kinds of columns:

    int      INT64
    hash     text: 0x and lower-case hexadecimal digits, 64 of a field or hash, 40 of an L1 address
    name     the same where one value comes many times in a row
    fee      DECIMAL(38, 0), in the smallest unit of the fee asset
    time     TIMESTAMP in UTC, without a zone
    hashes   a list of hash
    bytes    BLOB
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from fastnode.errors import SettingError

__all__ = ["BLOCK_NUMBER", "GROUPS", "TABLES", "Column", "Table", "choose_tables"]

#: The first column of every table, by which its rows are sorted.
BLOCK_NUMBER: Final = "block_number"


class Column(NamedTuple):
    name: str
    kind: str
    meaning: str
    is_nullable: bool = False


class Table(NamedTuple):
    name: str
    meaning: str
    columns: tuple[Column, ...]


_BLOCK: Final = (
    Column(BLOCK_NUMBER, "int", "the block"),
    Column("timestamp", "int", "its time in seconds since 1970"),
)
_TIME: Final = Column("block_time", "time", "its time")
_TRANSACTION: Final = (
    *_BLOCK,
    Column("tx_index", "int", "place of the transaction in its block, from 0"),
    Column("tx_hash", "name", "the transaction"),
)
_PUBLISHED: Final = (
    *_BLOCK,
    Column("tx_index", "int", "place of the transaction in its block; null: it is of the genesis", is_nullable=True),
    Column("tx_hash", "name", "the transaction; null: it is of the genesis", is_nullable=True),
)
_PRICES: Final = (
    Column("fee_per_da_gas", "fee", "price of a unit of DA gas"),
    Column("fee_per_l2_gas", "fee", "price of a unit of L2 gas (mana)"),
    Column("coinbase", "name", "L1 address that is paid"),
    Column("fee_recipient", "name", "L2 address that is paid"),
)
_LOG: Final = (
    Column("field_count", "int", "number of fields"),
    Column("fields", "hashes", "the fields that were emitted"),
)


def _tree(name: str, meaning: str) -> tuple[Column, Column]:
    return (
        Column(f"{name}_tree_root", "hash", f"root of the {meaning} tree after the block"),
        Column(f"{name}_tree_size", "int", "its leaves, empty ones included"),
    )


TABLES: Final = (
    Table(
        "blocks",
        "one row for each block: its header",
        (
            *_BLOCK,
            _TIME,
            Column("block_hash", "hash", "hash of the header"),
            Column("slot_number", "int", "the slot"),
            Column("checkpoint_number", "int", "the checkpoint that the block is in"),
            Column("index_within_checkpoint", "int", "its place there, from 0"),
            Column("tx_count", "int", "transactions of the block"),
            Column("total_fees", "fee", "sum of their fees"),
            Column("total_mana_used", "int", "sum of the mana that they used"),
            *_PRICES,
            Column("chain_id", "int", "id of the L1 chain"),
            Column("rollup_version", "int", "version of the rollup"),
            Column("last_archive_root", "hash", "root of the archive tree before the block"),
            Column("archive_root", "hash", "root of the archive tree after it"),
            Column("sponge_blob_hash", "hash", "hash over the effects of the checkpoint up to this block"),
            *_tree("l1_to_l2_message", "L1 to L2 message"),
            *_tree("note_hash", "note hash"),
            *_tree("nullifier", "nullifier"),
            *_tree("public_data", "public data"),
        ),
    ),
    Table(
        "checkpoints",
        "one row for each checkpoint that is complete, with its last block",
        (
            Column(BLOCK_NUMBER, "int", "the last block of the checkpoint"),
            Column("timestamp", "int", "its time in seconds since 1970"),
            _TIME,
            Column("checkpoint_number", "int", "the checkpoint"),
            Column("checkpoint_hash", "hash", "hash of its header, as L1 stores it"),
            Column("first_block", "int", "its first block"),
            Column("block_count", "int", "its blocks"),
            Column("slot_number", "int", "the slot"),
            Column("total_mana_used", "int", "mana that its blocks used"),
            Column("accumulated_fees", "fee", "fees of its blocks; null before release 5", is_nullable=True),
            *_PRICES,
            Column("last_archive_root", "hash", "root of the archive tree before it"),
            Column("archive_root", "hash", "root of the archive tree after it"),
            Column("block_headers_hash", "hash", "hash over the hashes of its blocks"),
            Column("blobs_hash", "hash", "hash over its blobs"),
            Column("in_hash", "hash", "root over the messages from L1 that it takes in"),
            Column("epoch_out_hash", "hash", "root over the messages to L1 of its epoch up to it"),
            Column("out_hash", "hash", "root over its own messages to L1"),
            Column("fee_asset_price_modifier", "int", "change of the fee asset's price that it asks for"),
            Column("l1_block_number", "int", "block of L1 in which it was published"),
            Column("l1_timestamp", "int", "time of that block in seconds since 1970"),
            Column("l1_block_hash", "hash", "hash of that block"),
        ),
    ),
    Table(
        "transactions",
        "one row for each transaction, with the numbers of what it did",
        (
            *_BLOCK,
            _TIME,
            Column("tx_index", "int", "place in the block, from 0"),
            Column("tx_hash", "hash", "the transaction"),
            Column("revert_code", "int", "0: success, 1: app logic reverted, 2: teardown reverted, 3: both"),
            Column("transaction_fee", "fee", "fee that was paid"),
            Column("note_hash_count", "int", "its note hashes"),
            Column("nullifier_count", "int", "its nullifiers"),
            Column("l2_to_l1_message_count", "int", "its messages to L1"),
            Column("public_write_count", "int", "its writes to public storage"),
            Column("private_log_count", "int", "its private logs"),
            Column("public_log_count", "int", "its public logs"),
            Column("contract_class_log_count", "int", "its logs that publish contract classes"),
        ),
    ),
    Table(
        "fees",
        "one row for each transaction: what it paid, at which prices, to whom",
        (*_BLOCK, _TIME, *_TRANSACTION[2:], Column("transaction_fee", "fee", "fee that was paid"), *_PRICES),
    ),
    Table(
        "note_hashes",
        "one row for each note hash, unique and siloed, as it is in the tree",
        (
            *_TRANSACTION,
            Column("note_hash_index", "int", "place in the transaction, from 0"),
            Column("leaf_index", "int", "place in the note hash tree"),
            Column("note_hash", "hash", "the note hash"),
        ),
    ),
    Table(
        "nullifiers",
        "one row for each nullifier, siloed, as it is in the tree",
        (
            *_TRANSACTION,
            Column("nullifier_index", "int", "place in the transaction, from 0"),
            Column("leaf_index", "int", "place in the nullifier tree"),
            Column("nullifier", "hash", "the nullifier"),
        ),
    ),
    Table(
        "public_writes",
        "one row for each write to public storage",
        (
            *_TRANSACTION,
            Column("write_index", "int", "place in the transaction, from 0"),
            Column("leaf_slot", "hash", "slot in the public data tree: hash of contract and storage slot"),
            Column("value", "hash", "value that was written"),
        ),
    ),
    Table(
        "private_logs",
        "one row for each private log; its content is encrypted",
        (
            *_TRANSACTION,
            Column("log_index", "int", "place in the transaction, from 0"),
            Column("tag", "hash", "the first field, siloed by contract", is_nullable=True),
            *_LOG,
        ),
    ),
    Table(
        "public_logs",
        "one row for each public log",
        (
            *_TRANSACTION,
            Column("log_index", "int", "place in the transaction, from 0"),
            Column("contract_address", "name", "the contract that emitted it"),
            Column("tag", "hash", "the first field; null: it has none", is_nullable=True),
            *_LOG,
        ),
    ),
    Table(
        "l1_to_l2_messages",
        "one row for each message from L1, with the block that took it in",
        (
            *_BLOCK,
            Column("checkpoint_number", "int", "the checkpoint that took it in"),
            Column("message_index", "int", "place in the checkpoint, from 0"),
            Column("leaf_index", "int", "place in the L1 to L2 message tree"),
            Column("message_hash", "hash", "hash of the message"),
        ),
    ),
    Table(
        "l2_to_l1_messages",
        "one row for each message to L1",
        (
            *_TRANSACTION,
            Column("message_index", "int", "place in the transaction, from 0"),
            Column("message_hash", "hash", "hash of the message"),
        ),
    ),
    Table(
        "contract_classes",
        "one row for each time that a contract class was published, and those of the genesis, as of block 0",
        (
            *_PUBLISHED,
            Column("class_id", "hash", "the class"),
            Column("version", "int", "version of its form"),
            Column("artifact_hash", "hash", "hash of its artifact"),
            Column("private_functions_root", "hash", "root over its private functions"),
            Column("bytecode_size", "int", "bytes of its public bytecode"),
            Column("bytecode", "bytes", "its public bytecode"),
        ),
    ),
    Table(
        "contract_instances",
        "one row for each time that a contract instance was published, and those of the genesis, as of block 0",
        (
            *_PUBLISHED,
            Column("contract_address", "hash", "the contract"),
            Column("version", "int", "version of its form"),
            Column("class_id", "hash", "its first class"),
            Column("salt", "hash", "salt of its address"),
            Column("initialization_hash", "hash", "hash of its constructor call"),
            Column("deployer", "hash", "who deployed it; zero: anybody could"),
            Column("public_keys_hash", "hash", "hash of its public keys"),
            Column("immutables_hash", "hash", "hash of its immutable values; null before release 5", is_nullable=True),
        ),
    ),
    Table(
        "contract_updates",
        "one row for each time that a contract instance was given another class",
        (
            *_TRANSACTION,
            Column("contract_address", "hash", "the contract"),
            Column("previous_class_id", "hash", "its class before; zero: its first one"),
            Column("new_class_id", "hash", "its class from then on"),
            Column("change_timestamp", "int", "when that is, in seconds since 1970"),
        ),
    ),
)

#: Names for several tables.
GROUPS: Final = {
    "messages": ("l1_to_l2_messages", "l2_to_l1_messages"),
    "contracts": ("contract_classes", "contract_instances", "contract_updates"),
}


def choose_tables(names: Sequence[str] | None) -> tuple[Table, ...]:
    """The tables of these names or groups, in the order of :data:`TABLES`; all for None.  SettingError names a
    name that there is not."""
    if names is None:
        return TABLES
    known = {table.name: (table.name,) for table in TABLES} | GROUPS
    for name in names:
        if name not in known:
            raise SettingError(f"--tables: there is no table {name!r}; there are {', '.join(known)}")
    wanted = {table for name in names for table in known[name]}
    if not wanted:
        raise SettingError("--tables: names no table")
    return tuple(table for table in TABLES if table.name in wanted)
