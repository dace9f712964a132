"""A proposer that a scenario tells what to do: it knows of every checkpoint whether the network stands behind it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.derivation.content import with_content
from tests.derivation.hostile import (
    ATTESTATIONS,
    BAD,
    BLOBS,
    GOOD,
    HEADERS,
    REFUSED,
    UNSURE,
    AnyCall,
    Attested,
    attest,
    cut_into_blobs,
    signature,
    signers_digest,
)
from tests.derivation.l1 import CHAIN_ID, EPOCH_SLOTS, FORWARDER, L1_SLOT_S, ScenarioL1

from fastnode.building.checkpoint import CheckpointDraft
from fastnode.development.synthetic_content import ChainShape, ContentGenerator
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import CheckpointHeader, accumulated_fees, block_headers_hash
from fastnode.protocol.effects import Body
from fastnode.protocol.ethereum import attested_digest, payload_digest
from fastnode.protocol.fields import ZERO_FIELD, split_fields
from fastnode.protocol.header import GasFees, GlobalVariables
from fastnode.protocol.kzg import BLOB_BYTES, blobs_hash, versioned_hash
from fastnode.protocol.messages import in_hash
from fastnode.protocol.out_hash import epoch_out_hash
from fastnode.publishing.encoding import selector, word
from fastnode.publishing.envelope import BlobBundle
from fastnode.publishing.multicall import Call, bundle
from fastnode.publishing.propose import NO_ATTESTATIONS, Attestations, EpochProof, InvalidateCall
from fastnode.sources.blobs.file_store import FileStore, folder_of
from fastnode.sources.genesis import build_genesis
from fastnode.sources.genesis_funds import NO_FUNDING
from fastnode.sources.l1.proposals import Proposal
from fastnode.sources.l1.propose_calls import MULTICALL3
from fastnode.world_state.state import WorldState

Action = Mapping[str, Any]
#: Commitment and proof of the polynomial that is zero.
_ZERO_POINT = b"\xc0" + bytes(47)
_SEND_MESSAGE = selector("sendL2Message((bytes32,uint256),bytes32,bytes32)")


@dataclass(eq=False)
class Built:
    """A checkpoint as it was proposed.  ``blocks`` are those of its number's true chain, whatever its blobs have."""

    number: int
    slot: int
    parent: Built | None
    archive: bytes
    attestations: Attestations = NO_ATTESTATIONS
    committee: tuple[bytes, ...] = ()
    blocks: tuple[L2Block, ...] = ()
    messages: tuple[bytes, ...] = ()
    out_hash: bytes = ZERO_FIELD
    epoch_out_hash: bytes = ZERO_FIELD
    coinbase: bytes = bytes(20)
    content: str = GOOD
    attested: str = GOOD
    bad_place: int | None = None
    bundle: BlobBundle | None = field(default=None, repr=False)
    call_data: bytes = field(default=b"", repr=False)
    is_hidden: bool = False
    #: What is wrong with its content.
    hostile: str = ""

    @property
    def verdict(self) -> str:
        if BAD in (self.content, self.attested) or self.is_hidden:
            return BAD
        return UNSURE if UNSURE in (self.content, self.attested) else GOOD

    def path(self) -> list[Built]:
        """From the genesis on."""
        path = [] if self.parent is None else self.parent.path()
        return [*path, self]


class Proposer:
    """``blobs``: the folder that both followers read them from."""

    def __init__(self, l1: ScenarioL1, directory: Path, blobs: Path) -> None:
        self.l1 = l1
        archive = l1.ask_contract("archiveAt(uint256)", 0)
        self.genesis = Built(0, 0, None, archive)
        records = [build_genesis(prefilled, [], [], l1.release) for _, prefilled in NO_FUNDING.choices(l1.release)]
        record = next(item for item in records if item.archive_root == archive)
        self._state = WorldState(directory, record, rules=l1.release.trees)
        self._at: list[Built] = [self.genesis]
        self._known: dict[tuple[bytes, bytes], Built] = {}
        self._by_archive: dict[bytes, Built] = {archive: self.genesis}
        self._folder = blobs
        self._store = FileStore(f"file://{blobs}", folder_of(CHAIN_ID, l1.version, l1.rollup), "store", is_written=True)
        self._store.sign_as_healthy()
        self._hidden: list[Built] = []
        #: Takes blobs in the place of the store, if it does.
        self.takes_blobs: Callable[[BlobBundle], bool] = lambda bundle: False
        #: Hashes of transactions and messages that were ever published.
        self.tx_hashes: list[bytes] = []
        self.message_hashes: list[bytes] = []

    def close(self) -> None:
        self._state.close()

    # ---- what L1 has -----------------------------------------------------------------------------

    def chain(self, time: int | None = None) -> list[Built]:
        """Checkpoints that L1 has at a time, from the newest proven one on."""
        l1 = self.l1
        time = l1.timestamp + L1_SLOT_S if time is None else time
        pending, proven = l1.read("getPendingCheckpointNumber()"), l1.read("getProvenCheckpointNumber()")
        top = proven if l1.read("canPruneAtTime(uint256)", time) else pending
        found = [self._by_archive[l1.ask_contract("archiveAt(uint256)", proven)]]
        for number in range(proven + 1, top + 1):
            archive, attested = l1.checkpoint(number)
            found.append(self._known[archive, attested])
        return found

    def expected(self) -> list[Built]:
        """Where followers may stand: one checkpoint, or several where nobody has said what is right."""
        first, *others = self.chain()
        found = [first]
        for built in others:
            if built.verdict == BAD:
                break
            found = [*found, built] if built.verdict == UNSURE or len(found) > 1 else [built]
        return found

    def falsely_attested(self) -> Built | None:
        """The first checkpoint on L1 that its committee attested to although its content is not right."""
        for built in self.chain()[1:]:
            if built.attested == BAD or built.is_hidden:
                return None
            if built.verdict != GOOD:
                return built
        return None

    def has_hidden_blobs(self) -> bool:
        """Tell that followers wait for blobs of what L1 has."""
        return any(built.is_hidden for built in self.chain()[1:])

    # ---- building ----------------------------------------------------------------------------------

    def _go_to(self, parent: Built) -> None:
        path = parent.path()
        common = 0
        while common < min(len(path), len(self._at)) and path[common] is self._at[common]:
            common += 1
        self._state.undo_above(path[common - 1].blocks[-1].number if path[common - 1].blocks else 0)
        for built in path[common:]:
            for index, block in enumerate(built.blocks):
                self._state.commit(self._state.prepare(block, built.messages if index == 0 else ()))
        self._at = path

    def build(self, parent: Built, slot: int, fee: int, action: Action, rng: random.Random) -> Built:
        l1 = self.l1
        self._go_to(parent)
        number, coinbase = parent.number + 1, rng.randbytes(20)
        messages = l1.messages(number)
        variables = GlobalVariables(
            CHAIN_ID,
            l1.version,
            0,
            slot,
            l1.start_of(slot),
            coinbase,
            rng.randbytes(31).rjust(32, b"\0"),
            GasFees(0, fee),
        )
        draft = CheckpointDraft(variables, number, messages, l1.release)
        wanted = action.get("txs", 1)
        shape = ChainShape(blocks=1, txs=max(1, wanted), vary=True, seed=rng.randrange(2**32))
        content = ContentGenerator(shape)
        for index in range(action.get("blocks", 1) if wanted else 1):
            body = content.body()
            while index and not body.tx_effects:  # two empty blocks of one slot are the same block
                body = content.body()
            effects = with_content(body.tx_effects if wanted else (), action.get("content"), l1.release, rng)
            block = draft.seal_block(self._state, effects, content.mana(Body(effects)) if effects else 0)
            self._state.commit(self._state.prepare(block, messages if index == 0 else ()))
        blocks = tuple(draft.blocks)
        earlier = [item.out_hash for item in parent.path()[1:] if item.slot // EPOCH_SLOTS == slot // EPOCH_SLOTS]
        outs = epoch_out_hash([*earlier, draft.out_hash])
        built = Built(number, slot, parent, blocks[-1].archive.root, blocks=blocks, messages=messages)
        built.out_hash, built.epoch_out_hash, built.coinbase = draft.out_hash, outs, coinbase
        self._at = [*parent.path(), built]
        self.tx_hashes += [effect.tx_hash for block in blocks for effect in block.body.tx_effects]
        fields = list(split_fields(draft.blob_fields))
        built.bundle = self._blobs(built, fields, action.get("blob"), rng)
        header = CheckpointHeader(
            last_archive_root=parent.archive,
            block_headers_hash=block_headers_hash(
                [block.hash() for block in blocks], l1.release.separators.block_headers
            ),
            blobs_hash=blobs_hash(built.bundle.versioned_hashes),
            in_hash=in_hash(messages),
            epoch_out_hash=outs,
            slot_number=slot,
            timestamp=variables.timestamp,
            coinbase=coinbase,
            fee_recipient=variables.fee_recipient,
            gas_fees=variables.gas_fees,
            total_mana_used=sum(block.header.total_mana_used for block in blocks),
            accumulated_fees=accumulated_fees(blocks, l1.release),
        )
        kinds = [f"{name} {action[name]}" for name in ("blob", "header") if action.get(name)]
        kinds += [f"attest {action['attest']}"] if action.get("attest") in ATTESTATIONS[2:] else []
        built.hostile = ", ".join(kinds)
        self._sign(built, self._bent(built, header, action.get("header"), rng), action, rng)
        return built

    def _bent(self, built: Built, header: CheckpointHeader, kind: str | None, rng: random.Random) -> CheckpointHeader:
        if kind == "archive":
            built.archive, built.content = rng.randbytes(31).rjust(32, b"\0"), BAD
        elif kind in HEADERS:
            built.content = BAD
            return HEADERS[kind](rng, header)  # type: ignore[no-any-return]
        elif kind in REFUSED:
            return REFUSED[kind](rng, header)  # type: ignore[no-any-return]
        return header

    def _blobs(self, built: Built, fields: list[bytes], kind: str | None, rng: random.Random) -> BlobBundle:
        if kind in BLOBS:
            verdict, bend = BLOBS[kind]
            changed = bend(rng, fields)
            built.content = verdict if changed != fields else GOOD
            return BlobBundle(cut_into_blobs(changed))
        if kind == "other" and (others := [item for item in self._known.values() if item.bundle is not None]):
            built.content = BAD
            chosen = rng.choice(others).bundle
            assert chosen is not None
            return chosen
        blobs = cut_into_blobs(fields)
        if kind in ("more", "seven"):
            built.content = UNSURE
            wanted = 7 if kind == "seven" else rng.randrange(2, 7)
            more = [rng.choice([bytes(BLOB_BYTES), b"".join(fields[:3]).ljust(BLOB_BYTES, b"\0")]) for _ in range(7)]
            blobs = (blobs + more)[: max(wanted, len(blobs))]
        return BlobBundle(blobs)

    def _sign(self, built: Built, header: CheckpointHeader, action: Action, rng: random.Random) -> None:
        """Attestations, and the call."""
        assert built.bundle is not None
        l1 = self.l1
        time = l1.start_of(built.slot)
        committee = l1.committee(time)
        proposer = l1.ask_contract("getProposerAt(uint256)", time)[12:32]
        modifier = action.get("modifier", 0)
        signed = attested_digest(header, payload_digest(header, built.archive, modifier, l1.signing_domain))
        attested: Attested = attest(action.get("attest", "quorum"), committee, proposer, signed, rng)
        built.committee, built.attestations = tuple(committee), attested.attestations
        built.attested, built.bad_place = attested.verdict, attested.bad
        digest = signers_digest(attested, None if header.accumulated_fees is None else l1.signing_domain)
        built.call_data = AnyCall(
            header=header,
            archive_root=built.archive,
            proposer_signature=signature(proposer, digest),
            commitments=built.bundle.commitments,
            attestations=attested.attestations,
            signers=attested.signers,
            fee_asset_price_modifier=modifier,
        ).call_data()
        self._known[built.archive, built.attestations.hash()] = built
        self._by_archive[built.archive] = built

    def signed_again(self, built: Built, kind: str, rng: random.Random) -> Built:
        """The same checkpoint with other attestations."""
        header = _header_of(built)
        other = replace(built)
        self._sign(other, header, {"attest": kind}, rng)
        return other

    # ---- sending -----------------------------------------------------------------------------------

    def propose(self, action: Action) -> None:
        l1, rng = self.l1, random.Random(action["seed"])
        chain = self.chain()
        slot = max(l1.next_slot, chain[-1].slot + 1) + action.get("skip", 0)
        l1.skip_to(slot)
        chain = self.chain(l1.timestamp + L1_SLOT_S)
        before, parent = self._without_invalid(chain, action.get("heal", "bundle"))
        built = self.build(parent, slot, self._fee(before, slot), action, rng)
        self.deliver(built, action.get("delivery", "now"), rng)
        calls = [*before, (l1.rollup, built.call_data)]
        if before and action.get("heal") == "before":
            l1.put(*before[0])
            calls = calls[1:]
        self._send(calls, built, action.get("through", "multicall"), rng)
        again = action.get("again")
        if again and action.get("again_in") == "block":
            self._propose_again(built, again, rng)
        l1.mine_waiting()
        if again and action.get("again_in") != "block" and l1.next_slot == slot:
            self._propose_again(built, again, rng)
            l1.mine_waiting()

    def _propose_again(self, built: Built, kind: str, rng: random.Random) -> None:
        other = self.signed_again(built, kind, rng)
        calls = [(self.l1.rollup, self._invalidation(built)), (self.l1.rollup, other.call_data)]
        self._send(calls, other, "multicall", rng)

    def _fee(self, before: Sequence[tuple[bytes, bytes]], slot: int) -> int:
        data = selector("getManaMinFeeAt(uint256,bool)") + word(self.l1.start_of(slot)) + word(1)
        answer = self.l1.simulate([*before, (self.l1.rollup, data)], self.l1.timestamp + L1_SLOT_S)[-1]
        return int.from_bytes(answer, "big") if answer is not None else 0

    def _invalidation(self, built: Built) -> bytes:
        call = InvalidateCall(
            number=built.number, attestations=built.attestations, committee=built.committee, bad=built.bad_place
        )
        return call.call_data()

    def _without_invalid(self, chain: list[Built], heal: str) -> tuple[list[tuple[bytes, bytes]], Built]:
        """Calls that take back the first invalid checkpoint, and what is below it then."""
        for built in chain[1:]:
            if built.attested != GOOD and heal != "none":
                call = (self.l1.rollup, self._invalidation(built))
                if self.l1.simulate([call], self.l1.timestamp + L1_SLOT_S)[0] is not None:
                    assert built.parent is not None
                    return [call], built.parent
        return [], chain[-1]

    def _send(self, calls: list[tuple[bytes, bytes]], built: Built, through: str, rng: random.Random) -> None:
        l1 = self.l1
        whole = bundle([Call(*call) for call in calls])
        if through == "direct" and len(calls) == 1:
            l1.put(*calls[0], built.bundle)
        elif through == "nested":
            for _ in range(rng.randrange(1, 6)):
                whole = bundle([Call(MULTICALL3, whole)])
            l1.put(MULTICALL3, whole, built.bundle)
        elif through == "stuffed":
            junk = [Call(rng.choice([l1.rollup, bytes(19) + b"\x04"]), selector("getTips()"))] * rng.randrange(2, 400)
            listed = [Call(*call) for call in calls]
            parts = [*junk, *listed, *junk[:3]]
            l1.put(MULTICALL3, bundle(parts), built.bundle)
        elif through == "forwarder":
            inner = calls[0] if len(calls) == 1 and rng.randrange(2) else (MULTICALL3, whole)
            l1.put(FORWARDER, b"".join(inner), built.bundle)
        elif through == "twice":
            l1.put(MULTICALL3, bundle([Call(*call) for call in [*calls, calls[-1]]]), built.bundle)
        elif through in ("decoy before", "decoy behind"):
            decoy = (l1.rollup, self._decoy(built, rng))
            listed = [decoy, *calls] if through == "decoy before" else [*calls, decoy]
            l1.put(MULTICALL3, bundle([Call(*call) for call in listed]), built.bundle)
        else:
            l1.put(MULTICALL3, whole, built.bundle)

    def _decoy(self, built: Built, rng: random.Random) -> bytes:
        """A call for the same checkpoint that fails: of a stranger, cut, or with other attestations."""
        data = bytearray(built.call_data)
        kind = rng.randrange(3)
        if kind == 0:
            return bytes(data[: rng.randrange(4, len(data))])
        more = int(_header_of(built).accumulated_fees is not None)  # words of a header
        at = 4 + 32 * (rng.choice([16, 17, 18]) + more if kind == 1 else rng.randrange(20 + more)) + 31
        data[at] ^= rng.randrange(1, 256)
        return bytes(data)

    # ---- blobs -------------------------------------------------------------------------------------

    def deliver(self, built: Built, when: str, rng: random.Random) -> None:
        """Put a checkpoint's blobs where followers find them: now, later, or wrong ones first."""
        assert built.bundle is not None
        hashes = set(built.bundle.versioned_hashes)
        if any(
            other is not built and other.bundle and hashes & set(other.bundle.versioned_hashes)
            for other in self._known.values()
        ):
            # Two checkpoints of a slot without transactions have the same blob: it is where the other one's is.
            self.reveal()
            when = "now"
        if when == "now" or built.content != GOOD:
            self._upload(built)
            return
        built.is_hidden = True
        self._hidden.append(built)
        if when == "damaged":
            wrong = BlobBundle([rng.randbytes(31).rjust(32, b"\0")])
            for item in built.bundle.versioned_hashes:
                self._store.upload(item, wrong.blobs[0], wrong.commitments[0])

    def reveal(self) -> None:
        for built in self._hidden:
            assert built.bundle is not None
            for item in built.bundle.versioned_hashes:
                for file in self._folder.rglob(f"0x{item.hex()}*"):
                    file.unlink()
            self._upload(built)
            built.is_hidden = False
        for other in self._known.values():
            other.is_hidden = False
        self._hidden = []

    def _upload(self, built: Built) -> None:
        assert built.bundle is not None
        if not self.takes_blobs(built.bundle):
            self.store(built.bundle)

    def store(self, bundle: BlobBundle) -> None:
        for blob, commitment in zip(bundle.blobs, bundle.commitments, strict=True):
            self._store.upload(versioned_hash(commitment), blob, commitment)

    # ---- other actions -----------------------------------------------------------------------------

    def invalidate(self) -> None:
        before, _ = self._without_invalid(self.chain(), "bundle")
        for call in before:
            self.l1.put(*call)
        self.l1.mine_waiting()

    def send_messages(self, action: Action) -> None:
        rng = random.Random(action["seed"])
        for index in range(action["count"]):
            content = [rng.randbytes(31).rjust(32, b"\0") for _ in range(3)]
            data = _SEND_MESSAGE + content[0] + word(self.l1.version) + content[1] + content[2]
            self.l1.put(self.l1.inbox, data)
            if action.get("apart") and index % 2:
                self.l1.mine_waiting()
        self.l1.mine_waiting()

    def prove(self, action: Action) -> None:
        """Some or all of the first epoch that is not proven; nothing while one of its checkpoints is not good.

        ``how``: less or the same once more, an epoch before its turn, or what is wrong; L1 says what comes of it.
        """
        chain = self.chain()
        path = chain[-1].path()
        proven, how = chain[0].number, action.get("how")
        if len(chain) == 1 or any(built.verdict != GOOD for built in chain[1:]):
            return
        rng = random.Random(action["seed"])
        epochs = sorted({built.slot // EPOCH_SLOTS for built in chain[1:]})
        epoch = rng.choice(epochs) if how == "early" else epochs[0]
        if how == "less" and proven:
            epoch = chain[0].slot // EPOCH_SLOTS
        members = [built for built in path[1:] if built.slot // EPOCH_SLOTS == epoch]
        wanted = members if how == "less" else [built for built in members if built.number > proven]
        end = rng.choice(wanted)
        start = members[0].number
        if how == "wrong":
            start = max(1, start + rng.choice([-1, 1]))
        if start > end.number:
            return
        before = path[start - 1]
        headers = [_header_of(built) for built in path[start : end.number + 1]]
        end_archive, out_hash = end.archive, end.epoch_out_hash
        if how == "wrong":
            kind = rng.randrange(4)
            end_archive = rng.choice(path).archive if kind == 1 else end_archive
            out_hash = rng.randbytes(31).rjust(32, b"\0") if kind == 2 else out_hash
            headers = rng.sample(headers, len(headers)) if kind == 3 else headers
        proof = EpochProof(
            start=start,
            end=end.number,
            previous_archive=before.archive,
            end_archive=end_archive,
            out_hash=out_hash,
            prover_id=bytes([rng.choice([0x11, 0x12, 0x13])]) * 20 if how else b"\x11" * 20,
            fees=tuple((bytes(20), 0) for _ in range(start, end.number + 1)),
            headers=tuple(headers) if self.l1.release.counts_fees else (),
            blob_inputs=versioned_hash(_ZERO_POINT) + bytes(64) + _ZERO_POINT + _ZERO_POINT,
            attestations=end.attestations,
        )
        self.l1.put(self.l1.rollup, proof.call_data())
        self.l1.mine_waiting()

    def prune(self) -> None:
        """By a call of its own, which fails while there is nothing to prune."""
        self.l1.put(self.l1.rollup, selector("prune()"))
        self.l1.mine_waiting()

    def invalidate_falsely(self, action: Action) -> None:
        """Calls that would take back what nothing is wrong with, or name it wrongly; L1 says what comes of them."""
        rng, chain = random.Random(action["seed"]), self.chain()
        for _ in range(rng.randrange(1, 4)):
            built = rng.choice([*chain[1:], *list(self._known.values())[-6:]] or [None])  # type: ignore[list-item]
            if built is None:
                return
            committee = list(built.committee)
            if rng.random() < 0.2:
                rng.shuffle(committee)
            bad = built.bad_place if rng.random() < 0.3 else rng.choice([None, *range(len(committee) + 1)])
            number = built.number + rng.choice([0, 0, 0, 1, -1])
            call = InvalidateCall(
                number=max(0, number), attestations=built.attestations, committee=tuple(committee), bad=bad
            )
            self.l1.put(self.l1.rollup, call.call_data())
        self.l1.mine_waiting()

    def take_back(self, action: Action) -> None:
        """A reorg of L1; its transactions may come again in other blocks, in the same order."""
        l1, rng = self.l1, random.Random(action["seed"])
        depth = min(action["depth"], l1.number - 60)
        if depth <= 0:
            return
        raw = l1.take_back(depth)
        l1.skip(action.get("then", 0))
        if action.get("again"):
            for item in raw:
                l1.put_again(item)
                if rng.randrange(2):
                    l1.mine_waiting()
            l1.mine_waiting()

    def let_expire(self) -> None:
        """Until what is not proven may be pruned."""
        for _ in range(4 * EPOCH_SLOTS):
            if self.l1.read("canPruneAtTime(uint256)", self.l1.timestamp + L1_SLOT_S):
                return
            if len(self.chain()) == 1:
                return
            self.l1.skip_to(self.l1.next_slot + 1)


def _header_of(built: Built) -> CheckpointHeader:
    """The one that L1 has, which may be bent."""
    return Proposal.from_call_data(built.call_data).header
