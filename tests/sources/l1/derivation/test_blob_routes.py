"""Consensus clients offer different ways to their blobs: each of them is enough, for checkpoints of several blobs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sources.l1.derivation.deriving import deriving
from tests.sources.l1.publishing import PublishingL1, publish, served
from tests.sources.made_chain import BLOBS_OF_LARGE, BLOCKS_OF_LARGE, LARGE_SHAPE, MadeChain, grown_chain

from fastnode.errors import BlobsUnavailable
from fastnode.outgoing.health import Patience
from fastnode.sources.blobs import beacon as beacon_module
from fastnode.sources.blobs.beacon import BeaconNode
from fastnode.sources.blobs.fetcher import BlobSources
from fastnode.sources.blobs.http_get import HttpGet


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[MadeChain]:
    with grown_chain(tmp_path / "made", *BLOCKS_OF_LARGE, shape=LARGE_SHAPE) as chain:
        yield chain


@pytest.fixture
def l1(chain: MadeChain) -> Iterator[PublishingL1]:
    with served(PublishingL1(chain.chain_record["nodeInfo"], chain.chain_record["l1Constants"])) as l1:
        for unit in chain.units:
            publish(l1, unit)
        counts = [len(blobs) for blobs in l1.beacon.blobs.values()]
        assert tuple(counts) == BLOBS_OF_LARGE
        yield l1


def forms(l1: PublishingL1) -> list[str]:
    """Requests for blobs, by their form."""
    paths = [path for path in l1.beacon.requests if "/blobs/" in path or "/blob_sidecars/" in path]
    return [
        "sidecars"
        if "blob_sidecars" in path
        else "repeated"
        if path.count("versioned_hashes") > 1
        else "joined"
        if "," in path
        else "all"
        for path in paths
    ]


def test_hashes_are_sent_as_the_specification_says(tmp_path: Path, chain: MadeChain, l1: PublishingL1) -> None:
    l1.beacon.serves_sidecars = False
    with deriving(tmp_path, chain, l1) as node:
        node.pass_()
        assert node.checkpoint == chain.checkpoint_count
    assert set(forms(l1)) == {"repeated"}
    assert len(forms(l1)) == len(BLOBS_OF_LARGE)


@pytest.mark.parametrize("gives_bytes", [False, True])
def test_a_client_that_wants_them_joined_gets_them_joined_from_then_on(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1, gives_bytes: bool
) -> None:
    l1.beacon.takes_repeated, l1.beacon.takes_joined = False, True
    l1.beacon.serves_sidecars, l1.beacon.serves_bytes = False, gives_bytes
    with deriving(tmp_path, chain, l1) as node:
        node.pass_()
        assert node.checkpoint == chain.checkpoint_count
        assert forms(l1).count("repeated") <= len(BLOBS_OF_LARGE), "those that were under way"
        l1.beacon.requests.clear()
        chain.checkpoint(2)
        publish(l1, chain.units[-1])
        node.pass_()
        assert node.checkpoint == chain.checkpoint_count
        assert set(forms(l1)) == {"joined"}
        [source] = node.fetcher.describe()
        assert source["failures"] == 0


def test_a_client_that_knows_no_hashes_is_asked_for_all_blobs(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1
) -> None:
    l1.beacon.takes_repeated = l1.beacon.takes_joined = l1.beacon.serves_sidecars = False
    with deriving(tmp_path, chain, l1) as node:
        node.pass_()
        assert node.checkpoint == chain.checkpoint_count


@pytest.mark.parametrize("status", [400, 403, 404, 405, 406, 410, 415, 422, 501])
def test_a_client_that_does_not_offer_blobs_gives_sidecars(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1, status: int
) -> None:
    l1.beacon.refusals = {"blobs": status}
    with deriving(tmp_path, chain, l1) as node:
        node.pass_()
        assert node.checkpoint == chain.checkpoint_count
    assert "sidecars" in forms(l1)


def test_what_is_not_offered_is_asked_for_again_after_some_minutes(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beacon_module, "PATIENCE", Patience(unavailable_s=0.3))
    l1.beacon.refusals = {"blobs": 405}
    with deriving(tmp_path, chain, l1) as node:
        node.pass_()
        assert node.checkpoint == chain.checkpoint_count
        l1.beacon.refusals = {"blob_sidecars": 405}
        chain.checkpoint(2)
        publish(l1, chain.units[-1])
        l1.beacon.requests.clear()
        time.sleep(0.5)
        node.pass_()
        assert node.checkpoint == chain.checkpoint_count
        assert forms(l1) == ["repeated"]


def test_a_form_that_rests_is_asked_for_when_no_other_has_the_blobs(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1
) -> None:
    l1.beacon.refusals = {"blobs": 405}
    with deriving(tmp_path, chain, l1) as node:
        node.pass_()
        l1.beacon.refusals = {"blob_sidecars": 405}
        chain.checkpoint(1)
        publish(l1, chain.units[-1])
        node.pass_()
        assert node.checkpoint == chain.checkpoint_count


def test_headers_that_are_not_offered_are_not_needed(tmp_path: Path, chain: MadeChain, l1: PublishingL1) -> None:
    l1.beacon.refusals = {"headers": 403}
    l1.beacon.times = (l1.blocks[0].timestamp - 1, 1)
    by_block, l1.beacon.blobs = l1.beacon.blobs, {}
    for number, blobs in by_block.items():  # blocks of one second share a slot
        l1.beacon.blobs.setdefault(l1.beacon.slot_of(l1.blocks[number]), []).extend(blobs)
    with deriving(tmp_path, chain, l1) as node:
        node.fetcher.sources.consensus[0].check()
        node.pass_()
        assert node.checkpoint == chain.checkpoint_count


def test_a_client_that_offers_no_way_says_why(tmp_path: Path, chain: MadeChain, l1: PublishingL1) -> None:
    l1.beacon.refusals = {"blobs": 405, "blob_sidecars": 501}
    with (
        deriving(tmp_path, chain, l1) as node,
        pytest.raises(BlobsUnavailable, match=r"blobs: HTTP status 405: blobs is not offered; .*blob_sidecars: HTTP"),
    ):
        node.pass_()


def test_what_a_client_says_about_a_wrong_key_is_quoted_without_the_key(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1
) -> None:
    l1.beacon.refusals = dict.fromkeys(("blobs", "blob_sidecars"), 401)

    def sources(http: HttpGet) -> BlobSources:
        return BlobSources(consensus=(BeaconNode(l1.beacon.url, http, "beacon 1", key="top-secret"),))

    with deriving(tmp_path, chain, l1, sources) as node, pytest.raises(BlobsUnavailable) as caught:
        node.pass_()
    assert "HTTP status 401: blobs is not offered (check the URL and its API key)" in str(caught.value)
    assert "top-secret" not in str(caught.value)
