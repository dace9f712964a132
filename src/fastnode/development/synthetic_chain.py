"""Large chains for tests and measurements: random content, true roots.

A synthetic chain passes every check of an import: the roots are computed in memory as the blocks are made; blob
hashes, message trees and checkpoint headers are those of their content.  Commitments to blobs take most of the time
and are compared only where a chain is derived from L1, so a shape may do without.

The same shape gives the same chain, byte for byte.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import orjson

from fastnode.archiver.source import CheckpointRecord, GenesisRecord
from fastnode.development.growing_trees import BlockContent, GrowingTrees
from fastnode.development.synthetic_content import ChainShape, ContentGenerator, random_fields
from fastnode.development.synthetic_text import body_text
from fastnode.protocol.blobs import (
    CHECKPOINT_FIELDS_MAX,
    BlobSponge,
    absorb_each,
    block_end_fields,
    checkpoint_blob_fields,
    tx_blob_fields,
)
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import (
    Checkpoint,
    CheckpointHeader,
    L1PublishedData,
    PublishedCheckpoint,
    accumulated_fees,
    block_headers_hash,
    header_in_hash,
    header_type,
)
from fastnode.protocol.effects import Body, TxEffect
from fastnode.protocol.effects_tree import effects_root
from fastnode.protocol.fields import FIELD_BYTES, ZERO_FIELD, hex_text
from fastnode.protocol.genesis import PrefilledPublicData, genesis_tips
from fastnode.protocol.header import AppendOnlyTreeSnapshot, BlockHeader, GasFees, GlobalVariables, StateReference
from fastnode.protocol.kzg import blob_commitment, blobs_hash, blobs_of_fields, versioned_hash
from fastnode.protocol.out_hash import checkpoint_out_hash, epoch_out_hash, messages_of_block
from fastnode.protocol.releases import FOUR, Release, shipped_contracts
from fastnode.protocol.tips import BlockId, CheckpointId, L2Tips, TipId
from fastnode.records import dataclass
from fastnode.sources.chain_file import CHAIN_FILE_VERSION, ChainFileSource, ChainFileWriter, bundled_chain
from fastnode.world_state.apply import BlockDraft, Seal
from fastnode.world_state.genesis import genesis_of

__all__ = ["ChainShape", "SyntheticBlock", "SyntheticChain", "write_synthetic_chain"]

L1_CHAIN_ID: Final = 31337
L1_GENESIS_TIME: Final = 1_800_000_000
SLOT_SECONDS: Final = 36
EPOCH_SLOTS: Final = 32
L1_SLOT_SECONDS: Final = 12
MANA_LIMIT: Final = 200_000_000
GAS_FEES: Final = GasFees(0, 1_000_000)
PREFILLED_ACCOUNTS: Final = 5
PREFILLED_BALANCE: Final = 10**22
#: Checkpoints by which the proven and the finalized tip are behind the newest one.
PROVEN_BEHIND: Final = 2
FINALIZED_BEHIND: Final = 4
#: A block's end data: of the first block of a checkpoint, of another one, and at most with the checkpoint's end marker.
FIRST_END_FIELDS: Final = 7
END_FIELDS: Final = 6
END_FIELDS_MAX: Final = 8
#: Blocks and txs that the trees grow by at once.
RUN_BLOCKS: Final = 256
RUN_TXS: Final = 2048
NO_BODY: Final = Body(())


class Trees(Protocol):
    """Trees that blocks are made on."""

    @property
    def block_number(self) -> int: ...

    @property
    def block_hash(self) -> bytes: ...

    def build(self, draft: BlockDraft, messages: Sequence[bytes], seal: Seal) -> tuple[L2Block, Any]: ...

    def commit(self, prepared: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class SyntheticBlock:
    """A block, and the L1 to L2 messages of its checkpoint if it is the checkpoint's first one, else None.

    ``blob_fields`` are those of its txs, joined; empty: they and the hash are worked out where they are needed.
    """

    block: L2Block
    messages: tuple[bytes, ...] | None
    blob_fields: bytes = b""
    block_hash: bytes = b""

    def to_json(self) -> dict[str, Any]:
        """The JSON of the block, its body as text."""
        block = self.block
        text = body_text(block.body, self.blob_fields or _fields_of(block.body))
        return {**replace(block, body=NO_BODY).to_json(), "body": orjson.Fragment(text)}


class _CheckpointContent(NamedTuple):
    """All that is drawn for a checkpoint, and the blob fields of the txs of each body."""

    messages: tuple[bytes, ...]
    bodies: list[Body]
    blob_fields: list[bytes]

    def blocks(self) -> list[BlockContent]:
        return [BlockContent(body.tx_effects, None if i else self.messages) for i, body in enumerate(self.bodies)]


class SyntheticChain:
    """One chain in the making: iterate over :meth:`lines` once, from begin to end.

    ``release``: of its rules; lines are written of 4.x only.
    """

    def __init__(self, shape: ChainShape, release: Release) -> None:
        shape.check()
        self._shape = shape
        self._release = release
        self._network = random.Random(f"fastnode synthetic network {shape.seed}")
        self._sample_chain, self._sample_genesis = _sample_records()
        self._content = ContentGenerator(shape, _sample_effects() if shape.wallets else ())
        self.rollup_version = self._network.randrange(1, 1 << 32)
        self.genesis = self._make_genesis()
        self._next_body: Body | None = None
        self._slot = 0
        self._out_hashes: dict[int, list[bytes]] = {}  # of the newest epoch
        #: ``in_hash`` of each checkpoint, by its number: in some releases that of the next one follows from it.
        self._in_hashes: dict[int, bytes] = {}
        self._checkpoints: list[TipId] = [genesis_tips().checkpointed]
        self._proposed = genesis_tips().proposed

    @property
    def block_number(self) -> int:
        """The newest block made so far."""
        return self._proposed.number

    # ---- the file --------------------------------------------------------------------------------

    def lines(self) -> Iterator[tuple[bytes, bytes]]:
        """(kind, members) of every line of the chain file, as ``ChainFileWriter.write`` takes them."""
        yield b"chain", _members({"version": CHAIN_FILE_VERSION, **self._chain_record()})
        yield b"genesis", _members(self.genesis.to_json())
        state = GrowingTrees(self.genesis)  # of release 4.x
        for run in self._runs():
            for content, sponge in zip(run, self._grow(state, run), strict=True):
                yield self._checkpoint_line(self._blocks_of_checkpoint(state, content, sponge))
        proposed = self._content_of_checkpoint(self._shape.proposed)
        (sponge,) = self._grow(state, [proposed])
        for made in self._blocks_of_checkpoint(state, proposed, sponge):
            yield _block_line(made)
        yield b"tips", _members({"tips": self._tips().to_json()})

    def _runs(self) -> Iterator[list[_CheckpointContent]]:
        """The content of all checkpoints, of some at a time: trees grow faster by many blocks than by each of them."""
        left = self._shape.blocks - self._shape.proposed
        while left > 0:
            run: list[_CheckpointContent] = []
            blocks = txs = 0
            while blocks < min(left, RUN_BLOCKS) and txs < RUN_TXS:
                run.append(self._content_of_checkpoint(min(left - blocks, self._shape.blocks_per_checkpoint)))
                blocks += len(run[-1].bodies)
                txs += sum(len(body.tx_effects) for body in run[-1].bodies)
            left -= blocks
            yield run

    def _grow(self, state: GrowingTrees, run: Sequence[_CheckpointContent]) -> list[BlobSponge]:
        """Hash what follows from the content alone; the sponge of each checkpoint after the txs of its first block."""
        state.grow([block for content in run for block in content.blocks()])
        return absorb_each([BlobSponge()] * len(run), [b"".join(content.blob_fields[:1]) for content in run])

    # ---- blocks ----------------------------------------------------------------------------------

    def _content_of_checkpoint(self, count: int) -> _CheckpointContent:
        """At most ``count`` blocks: fewer when the next one does not fit the blobs of the checkpoint."""
        content = _CheckpointContent(self._content.messages(), [], [])
        used = 0
        while len(content.bodies) < count:
            body = self._next_body or self._content.body()
            self._next_body = None
            blob_fields = _fields_of(body)
            fields = len(blob_fields) // FIELD_BYTES
            if used + fields + END_FIELDS_MAX > CHECKPOINT_FIELDS_MAX:
                if not content.bodies:
                    raise ValueError(
                        f"a block of {fields} blob fields fits no checkpoint: {CHECKPOINT_FIELDS_MAX} at most"
                    )
                self._next_body = body
                break
            has_messages_root = not content.bodies or self._release.trees.has_compact_messages
            used += fields + (FIRST_END_FIELDS if has_messages_root else END_FIELDS)
            content.bodies.append(body)
            content.blob_fields.append(blob_fields)
        return content

    def _blocks_of_checkpoint(
        self, state: Trees, content: _CheckpointContent, with_first_txs: BlobSponge
    ) -> list[SyntheticBlock]:
        self._slot += 1
        checkpoint = _CheckpointInTheMaking(self._globals_of_slot(), content.messages, with_first_txs)
        for body, blob_fields in zip(content.bodies, content.blob_fields, strict=True):
            self._make_block(state, checkpoint, body, len(self._checkpoints), blob_fields)
        return checkpoint.blocks

    def _make_block(
        self, state: Trees, checkpoint: _CheckpointInTheMaking, body: Body, number: int, blob_fields: bytes = b""
    ) -> None:
        blob_fields = blob_fields or _fields_of(body)
        index = len(checkpoint.blocks)
        messages = checkpoint.messages if index == 0 else None
        draft = BlockDraft(body, number, index)
        variables = checkpoint.global_variables(state.block_number + 1)
        mana = self._content.mana(body)
        root = effects_root(body.tx_effects) if self._release.trees.has_effects_root else None

        def seal(last_archive: AppendOnlyTreeSnapshot, after: StateReference) -> BlockHeader:
            unsealed = BlockHeader(last_archive, after, bytes(FIELD_BYTES), variables, body.total_fees, mana, root)
            block = L2Block(last_archive, unsealed, body, number, index)
            blob_hash = checkpoint.absorb(block, blob_fields)
            return BlockHeader(last_archive, after, blob_hash, variables, body.total_fees, mana, root)

        block, prepared = state.build(draft, messages or (), seal)
        state.commit(prepared)
        checkpoint.blocks.append(SyntheticBlock(block, messages, blob_fields, state.block_hash))
        self._proposed = BlockId(block.number, state.block_hash)

    def _globals_of_slot(self) -> GlobalVariables:
        return GlobalVariables(
            chain_id=L1_CHAIN_ID,
            version=self.rollup_version,
            block_number=0,
            slot_number=self._slot,
            timestamp=L1_GENESIS_TIME + self._slot * SLOT_SECONDS,
            coinbase=self._network.randbytes(20),
            fee_recipient=random_fields(self._network, 1),
            gas_fees=GAS_FEES,
        )

    # ---- checkpoints -------------------------------------------------------------------------------

    def _checkpoint_line(self, made: list[SyntheticBlock]) -> tuple[bytes, bytes]:
        messages = made[0].messages or ()
        header = self._checkpoint_header(made, messages)
        checkpoint = Checkpoint(
            archive=made[-1].block.archive,
            header=header,
            blocks=(),  # as text
            number=len(self._checkpoints),
            fee_asset_price_modifier=0,
        )
        self._checkpoints.append(TipId(self._proposed, CheckpointId(checkpoint.number, header.hash())))
        published = PublishedCheckpoint(checkpoint, self._l1_data(header), ())
        record = published.to_json()
        record["checkpoint"]["blocks"] = [item.to_json() for item in made]
        members = {"published": record, "l1ToL2Messages": [hex_text(message) for message in messages]}
        return b"checkpoint", _members(members)

    def _checkpoint_header(self, made: list[SyntheticBlock], messages: tuple[bytes, ...]) -> CheckpointHeader:
        blocks = [item.block for item in made]
        first = blocks[0].header
        variables = first.global_variables
        epoch = variables.slot_number // EPOCH_SLOTS
        earlier = self._out_hashes.get(epoch, [])
        self._out_hashes = {epoch: [*earlier, checkpoint_out_hash([messages_of_block(block) for block in blocks])]}
        number = len(self._checkpoints)
        in_hash = header_in_hash(self._release, messages, self._in_hashes.get(number - 1, ZERO_FIELD))
        self._in_hashes[number] = in_hash
        return header_type(self._release)(
            last_archive_root=first.last_archive.root,
            block_headers_hash=block_headers_hash(
                [item.block_hash or item.block.hash() for item in made], self._release.separators.block_headers
            ),
            blobs_hash=_blobs_hash(blocks) if self._shape.commitments else random_fields(self._network, 1),
            in_hash=in_hash,
            epoch_out_hash=epoch_out_hash(self._out_hashes[epoch]),
            slot_number=variables.slot_number,
            timestamp=variables.timestamp,
            coinbase=variables.coinbase,
            fee_recipient=variables.fee_recipient,
            gas_fees=variables.gas_fees,
            total_mana_used=sum(block.header.total_mana_used for block in blocks),
            accumulated_fees=accumulated_fees(blocks, self._release),
        )

    def _l1_data(self, header: CheckpointHeader) -> L1PublishedData:
        timestamp = header.timestamp + L1_SLOT_SECONDS
        return L1PublishedData(
            block_number=1 + (timestamp - L1_GENESIS_TIME) // L1_SLOT_SECONDS,
            timestamp=timestamp,
            block_hash=self._network.randbytes(FIELD_BYTES),
        )

    def _tips(self) -> L2Tips:
        newest = len(self._checkpoints) - 1
        return L2Tips(
            proposed=self._proposed,
            checkpointed=self._checkpoints[newest],
            proven=self._checkpoints[max(0, newest - PROVEN_BEHIND)],
            finalized=self._checkpoints[max(0, newest - FINALIZED_BEHIND)],
        )

    # ---- genesis -----------------------------------------------------------------------------------

    def _make_genesis(self) -> GenesisRecord:
        """The protocol contracts of the sample chain over public data of this chain's own."""
        slots = sorted(random_fields(self._network, 1) for _ in range(PREFILLED_ACCOUNTS))
        balance = PREFILLED_BALANCE.to_bytes(FIELD_BYTES, "big")
        prefilled = [PrefilledPublicData(slot, balance) for slot in slots]
        built = genesis_of(prefilled, self._release.trees)
        sample = self._sample_genesis
        file = self._release.local_contracts_file
        shipped = None if file is None else shipped_contracts(file)
        record = {
            "header": built.header.to_json(),
            "blockHash": hex_text(built.record.block_hash),
            "archiveRoot": hex_text(built.archive.root),
            "prefilledPublicData": [leaf.to_json() for leaf in prefilled],
            "contractClasses": sample["contractClasses"] if shipped is None else shipped["classes"],
            "contractInstances": sample["contractInstances"] if shipped is None else shipped["instances"],
        }
        return GenesisRecord.from_json(record)

    def _chain_record(self) -> dict[str, Any]:
        info = self._sample_chain["nodeInfo"]
        addresses = {name: self._l1_address(name) for name in info["l1ContractAddresses"]}
        return {
            "nodeInfo": {
                **info,
                **(
                    {}
                    if self._release.has_version(info["nodeVersion"])
                    else {"nodeVersion": self._release.usual_version}
                ),
                "l1ChainId": L1_CHAIN_ID,
                "rollupVersion": self.rollup_version,
                "l1ContractAddresses": addresses,
            },
            "l1Constants": {
                **self._sample_chain["l1Constants"],
                "l1StartBlockHash": hex_text(sha256(b"l1 start").digest()),
                "l1StartBlock": "1",
                "l1GenesisTime": str(L1_GENESIS_TIME),
                "epochDuration": EPOCH_SLOTS,
                "slotDuration": SLOT_SECONDS,
                "ethereumSlotDuration": L1_SLOT_SECONDS,
                "genesisArchiveRoot": hex_text(self.genesis.archive_root),
                "rollupManaLimit": MANA_LIMIT,
            },
            "minFees": GAS_FEES.to_json(),
        }

    def _l1_address(self, name: str) -> str:
        return hex_text(sha256(f"{self.rollup_version} {name}".encode()).digest()[:20])


class _CheckpointInTheMaking:
    """State that the blocks of one checkpoint share."""

    def __init__(
        self, variables: GlobalVariables, messages: tuple[bytes, ...], with_first_txs: BlobSponge | None = None
    ) -> None:
        """``with_first_txs``: the sponge after the txs of the first block, where that is known."""
        self._variables = variables
        self._sponge = BlobSponge()
        self._with_first_txs = with_first_txs
        self.messages = messages
        self.blocks: list[SyntheticBlock] = []
        self.blob_fields = 0

    def global_variables(self, block_number: int) -> GlobalVariables:
        shared = self._variables
        return GlobalVariables(
            chain_id=shared.chain_id,
            version=shared.version,
            block_number=block_number,
            slot_number=shared.slot_number,
            timestamp=shared.timestamp,
            coinbase=shared.coinbase,
            fee_recipient=shared.fee_recipient,
            gas_fees=shared.gas_fees,
        )

    def absorb(self, block: L2Block, fields_of_txs: bytes) -> bytes:
        """Take in a block's blob fields; returns its ``spongeBlobHash``."""
        end_fields = block_end_fields(block)
        self.blob_fields += (len(fields_of_txs) + len(end_fields)) // FIELD_BYTES
        if self._with_first_txs is not None:
            self._sponge, self._with_first_txs = self._with_first_txs.absorb(end_fields), None
        else:
            self._sponge = self._sponge.absorb(fields_of_txs + end_fields)
        return self._sponge.squeeze()


def _fields_of(body: Body) -> bytes:
    return b"".join([tx_blob_fields(effect) for effect in body.tx_effects])


def _blobs_hash(blocks: list[L2Block]) -> bytes:
    blobs = blobs_of_fields(checkpoint_blob_fields(blocks))
    return blobs_hash([versioned_hash(blob_commitment(blob)) for blob in blobs])


def _sample_records() -> tuple[dict[str, Any], dict[str, Any]]:
    """The chain record and the genesis record of the chain that comes with the package."""
    with resources.as_file(bundled_chain()) as path, ChainFileSource(path) as source:
        return source.chain.to_json(), source.genesis.to_json()


def _sample_effects() -> tuple[TxEffect, ...]:
    """Effects of the transactions of the chain that comes with the package: a wallet sent them."""
    effects: list[TxEffect] = []
    with resources.as_file(bundled_chain()) as path, ChainFileSource(path) as source:
        for record in source.records():
            if isinstance(record, CheckpointRecord):
                for block in record.published.checkpoint.blocks:
                    effects += block.body.tx_effects
    return tuple(effects)


def _members(record: dict[str, Any]) -> bytes:
    """The members of a JSON object, without its braces."""
    return orjson.dumps(record)[1:-1]


def _block_line(made: SyntheticBlock) -> tuple[bytes, bytes]:
    record: dict[str, Any] = {"block": made.to_json()}
    if made.messages:
        record["l1ToL2Messages"] = [hex_text(message) for message in made.messages]
    return b"block", _members(record)


def write_synthetic_chain(path: Path, shape: ChainShape, *, progress: Callable[[int, int], None] | None = None) -> None:
    """Write the chain file of ``shape``, compressed when its name ends in .gz.

    ``progress(blocks, of all)`` is called after each line.  ValueError for a shape that no chain can have,
    ChainFileError when the file cannot be written.
    """
    with ChainFileWriter(path) as writer:
        chain = SyntheticChain(shape, FOUR)
        for kind, members in chain.lines():
            writer.write(kind, members)
            if progress is not None:
                progress(chain.block_number, shape.blocks)
