"""Conditions on a transaction about its network, from the chain."""

from __future__ import annotations

import hashlib

import pytest
from tests.archiver.conftest import full_store as full_store
from tests.archiver.conftest import imported_directory as imported_directory
from tests.archiver.conftest import sample_path as sample_path

from fastnode.archiver.queries import ChainView
from fastnode.archiver.store import ArchiverStore
from fastnode.mempool import network
from fastnode.mempool.network import NetworkIdentity
from fastnode.protocol.releases import FOUR


@pytest.fixture
def chain_view(full_store: ArchiverStore) -> ChainView:
    return full_store.open_view()


def test_the_hash_that_is_written_down_is_the_one_that_is_computed(chain_view: ChainView) -> None:
    stored = list(network._stored_instances(chain_view))
    assert len(stored) == 6
    assert network._computed_hash(stored, FOUR) == network._contracts_hash(chain_view)
    assert hashlib.sha256(b"".join(stored)).digest() == network._USUAL_CONTRACTS
    assert network._computed_hash(stored, FOUR) == FOUR.contracts_hash


def test_a_chain_with_contracts_of_its_own_has_a_hash_of_its_own(
    chain_view: ChainView, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = list(network._stored_instances(chain_view))
    monkeypatch.setattr(network, "_stored_instances", lambda _view: iter(stored[:5]))
    other = NetworkIdentity.of_view(chain_view).protocol_contracts_hash
    assert other == network._computed_hash(stored[:5], FOUR)
    monkeypatch.setattr(network, "_stored_instances", lambda _view: iter(()))
    assert NetworkIdentity.of_view(chain_view).protocol_contracts_hash is None
