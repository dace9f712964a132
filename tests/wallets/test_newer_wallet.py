"""The wallet of a later version of release 4.x, against a local network that goes by that version.

FASTNODE_WALLET=1 FASTNODE_WALLET_RELEASE=4.3.0-nightly.20260417 scripts/test tests/wallets/test_newer_wallet.py
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.wallets.test_published_wallet import run

from fastnode.protocol.releases import FOUR
from fastnode.testing import local_network

SCRIPT = (Path(__file__).parent / "newer.mjs").read_text()


@pytest.fixture
def version() -> str:
    version = os.environ.get("FASTNODE_WALLET_RELEASE", "")
    if not version or FOUR.has_phased_receipts(version):
        pytest.skip("a newer wallet is asked for by FASTNODE_WALLET_RELEASE")
    return version


@pytest.fixture
def packages() -> Path:
    return Path(os.environ["FASTNODE_TEST_WALLET"])


def steps_of(printed: str) -> dict[str, Any]:
    found = [json.loads(line) for line in printed.splitlines() if line.startswith('{"step"')]
    return {facts.pop("step"): facts for facts in found}


def test_a_newer_wallet_deploys_its_account_and_moves_tokens(version: str, packages: Path, tmp_path: Path) -> None:
    for name in ("asking", "working"):
        (tmp_path / name).mkdir()
    account = steps_of(run(packages, SCRIPT, "", tmp_path / "asking"))["account"]["address"]
    with local_network("--release", version) as network:
        assert network.accounts[0].address == account
        steps = steps_of(run(packages, SCRIPT, network.url, tmp_path / "working"))
        assert steps["account"]["address"] == account
        assert steps["balances"] == {"bob": 7, "private": 50}
        assert steps["receipt"]["result"] == "success"
        assert steps["node"] == {"version": version}
