"""A followed node beside L1: the attestations that are stored are those that L1 has, whatever the node says."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from coincurve import PrivateKey
from tests.sources.conftest import FollowingNode, following
from tests.sources.l1.conftest import publish_on_l1
from tests.sources.l1.derivation.attesting import address_of, sign
from tests.sources.l1.publishing import PublishingL1, served
from tests.sources.l1.scripted_l1 import Published
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import RejectionError, ScriptedUpstream

from fastnode.protocol.checkpoint import CommitteeAttestation, PublishedCheckpoint, packed_attestations
from fastnode.sources import moved_checkpoints
from fastnode.sources.l1.abi import hex_data
from fastnode.sources.l1.proposals import Proposal

Json = dict[str, Any]
CHECKPOINTS = 4
NO_ADDRESS, NO_SIGNATURE = "0x" + "00" * 20, "0x" + "00" * 65


class Attested:
    """A chain whose checkpoints a committee has attested to, on an L1 of its own.

    ``transaction`` brings a checkpoint; tests give others that bring the same.
    """

    def __init__(self, chain: MadeChain, l1: PublishingL1, dice: random.Random) -> None:
        self.chain, self.l1, self.dice = chain, l1, dice
        l1.committee_size = self.members = dice.randint(2, 19)
        for unit in chain.units:
            if unit.published is not None:
                unit.published["attestations"] = [self.attestation() for _ in range(self.members)]

    def attestation(self) -> Json:
        dice = self.dice
        if dice.random() < 0.3:
            return {"address": f"0x{dice.getrandbits(160):040x}", "signature": NO_SIGNATURE}
        signature = f"0x{dice.getrandbits(512):0128x}{dice.choice((27, 28)):02x}"
        return {"address": NO_ADDRESS, "signature": signature}

    def propose(self, form: Any = None, *, first: int = 0) -> None:
        """On L1, each checkpoint from this place on near the block that it names, and the chain's messages."""
        for unit in self.chain.units[first:]:
            if unit.published is None:
                continue
            published = PublishedCheckpoint.from_json(unit.published)
            sheet = self.l1.sheet(published)
            sheet.indices, sheet.signed = packed_attestations(published.attestations)
            transaction: Published | None = None if form is None else form(sheet)
            self.l1.mine(max(0, published.l1.block_number - self.l1.head.number - 1))
            self.l1.publish(sheet, transaction)
        publish_on_l1(self.chain, self.l1)


@contextmanager
def attested(chain: MadeChain, dice: random.Random) -> Iterator[Attested]:
    with served(PublishingL1(chain.chain_record["nodeInfo"], chain.chain_record["l1Constants"])) as l1:
        yield Attested(chain, l1, dice)


@contextmanager
def node_beside(directory: Path, made: Attested, upstream: ScriptedUpstream) -> Iterator[FollowingNode]:
    genesis = made.chain.write_genesis(directory.with_suffix(".jsonl"))
    with following(
        directory, upstream.url, l1_rpc_urls=(made.l1.url,), l1_polling_interval_ms=10, genesis=genesis
    ) as node:
        yield node


def stored(node: FollowingNode) -> list[Any]:
    view = node.ingestor.view
    found = [view.checkpoint(number) for number in range(1, view.tips.checkpointed.checkpoint.number + 1)]
    return read([json.loads(each.attestations_json) for each in found if each is not None])


def said(chain: MadeChain) -> list[Any]:
    return [unit.published["attestations"] for unit in chain.units if unit.published is not None]


def read(checkpoints: list[Any]) -> list[Any]:
    """One attestation has several forms in JSON."""
    return [[CommitteeAttestation.from_json(item) for item in attestations] for attestations in checkpoints]


# ---- lies ---------------------------------------------------------------------------------------------


def spoil(attestations: list[Json], others: list[Json], dice: random.Random) -> list[Json]:
    """Other attestations than these."""
    given = copy.deepcopy(attestations)
    while given == attestations:
        place = dice.randrange(len(given))
        kind = dice.choice(("bit", "swapped", "fewer", "more", "none", "unsigned", "named", "of another", "recovery"))
        if kind == "bit":
            name = dice.choice(("address", "signature"))
            text = given[place][name]
            at = dice.randrange(2, len(text))
            given[place][name] = text[:at] + dice.choice("0123456789abcdef") + text[at + 1 :]
        elif kind == "swapped":
            other = dice.randrange(len(given))
            given[place], given[other] = given[other], given[place]
        elif kind == "fewer":
            del given[place:]
        elif kind == "more":
            given.append(dice.choice(others))
        elif kind == "none":
            given = []
        elif kind == "unsigned":
            given[place]["signature"] = NO_SIGNATURE
        elif kind == "recovery" and given[place]["signature"] != NO_SIGNATURE:
            # Of its two forms one alone counts.
            text = given[place]["signature"]
            given[place]["signature"] = f"{text[:-2]}{int(text[-2:], 16) - 27:02x}"
        elif kind == "named":
            given[place]["address"] = f"0x{dice.getrandbits(160):040x}"
        else:
            given[place] = dice.choice(others)
    return given


@pytest.mark.parametrize("seed", range(40))
def test_attestations_that_l1_does_not_have_are_not_stored(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, seed: int
) -> None:
    dice = random.Random(seed)
    with attested(chain, dice) as made:
        made.propose()
        true = copy.deepcopy(said(chain))
        place = dice.randrange(CHECKPOINTS)
        published = chain.units[place].published
        assert published is not None
        published["attestations"] = spoil(true[place], true[place - 1], dice)
        with node_beside(tmp_path / "node", made, upstream) as node:
            found = node.wait_for_upstream("put aside", f"checkpoint {place + 1} does not have the attestations")
            assert stored(node) == read(true[:place]), found
        published["attestations"] = true[place]
        with node_beside(tmp_path / "node", made, upstream) as node:
            node.wait_for(chain)
            assert stored(node) == read(true)


@pytest.mark.parametrize("seed", range(8))
def test_nor_with_a_checkpoint_that_a_reorg_is_said_to_have_moved(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(moved_checkpoints, "LOOK_S", 0.0)
    dice = random.Random(seed)
    with attested(chain, dice) as made:
        made.propose()
        true = copy.deepcopy(said(chain))
        with node_beside(tmp_path / "node", made, upstream) as node:
            node.wait_for(chain)
            with upstream.lock:
                published = chain.units[CHECKPOINTS - 1].published
                assert published is not None
                published["attestations"] = spoil(true[-1], true[0], dice)
            node.wait_for_upstream("put aside", f"checkpoint {CHECKPOINTS} does not have the attestations")
            assert stored(node) == read(true)


def refuse_beyond(l1: PublishingL1) -> Any:
    """As many providers do with a range that ends behind their newest block."""

    def tamper(method: str, parameters: Any, result: Any) -> Any:
        if method == "eth_getLogs" and int(parameters[0]["toBlock"], 16) > l1.head.number:
            raise RejectionError(-32602, "block range extends beyond the current head block")
        return result

    return tamper


def test_a_checkpoint_that_was_not_proposed_where_a_node_says_is_waited_for(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    with attested(chain, random.Random(0)) as made:
        made.propose()
        published = chain.units[2].published
        assert published is not None
        true = published["l1"]
        published["l1"] = true | {"blockNumber": "123456789"}
        made.l1.tamper = refuse_beyond(made.l1)
        with node_beside(tmp_path / "node", made, upstream) as node:
            node.wait(lambda: "was not proposed near L1 block 123456789" in (node.follower.trouble or ""))
            assert len(stored(node)) == 2
            assert node.origins.l1 is not None
            assert all(endpoint.health.is_healthy for endpoint in node.origins.l1.endpoints), "it is none of its lies"
            with upstream.lock:
                published["l1"] = true
            node.wait_for(chain)


# ---- what honest nodes say -----------------------------------------------------------------------------


def longer(dice: random.Random) -> Any:
    """Call data with more than the committee has, which nobody reads."""

    def form(sheet: Any) -> Published:
        sheet.indices += dice.randbytes(dice.randint(0, 3))
        sheet.signed += dice.randbytes(dice.randint(0 if sheet.indices else 1, 90))
        return sheet.transaction(*(() if dice.random() < 0.5 else (sheet.rollup, sheet.call_data)))

    return form


@pytest.mark.parametrize("seed", range(8))
def test_attestations_in_any_form_that_l1_takes_are_followed(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, seed: int
) -> None:
    dice = random.Random(seed)
    with attested(chain, dice) as made:
        made.propose(longer(dice))
        with node_beside(tmp_path / "node", made, upstream) as node:
            node.wait_for(chain)
            assert stored(node) == read(said(chain))


def test_an_address_may_stand_beside_the_signature_that_tells_it(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    keys = [PrivateKey(bytes([number + 1]) * 32) for number in range(5)]
    with attested(chain, random.Random(2)) as made:
        made.l1.committee_size = len(keys)
        for unit in chain.units:
            if unit.published is not None:
                sheet = made.l1.sheet(unit.published)
                sign(sheet, keys, range(4))
                signed = Proposal.from_call_data(sheet.call_data).attestations(len(keys))
                unit.published["attestations"] = [item.to_json() for item in signed]
        made.propose()
        for attestations in said(chain):
            for item, key in zip(attestations, keys, strict=True):
                item["address"] = hex_data(address_of(key))
        with node_beside(tmp_path / "node", made, upstream) as node:
            node.wait_for(chain)
