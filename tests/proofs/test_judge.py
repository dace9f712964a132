"""Choice of the verifier: by settings, by network, and as both change."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.proofs.conftest import set_grumpkin
from tests.proofs.programs import stand_in, vector

from fastnode.errors import SettingError
from fastnode.proofs.judge import NO_VERIFIER, open_judge
from fastnode.proofs.program import INVALID_PROOF
from fastnode.proofs.verdict import VALID, Judgement, Verdict
from fastnode.proofs.verifier import BbOptions
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx


@pytest.fixture(scope="module")
def tx() -> Tx:
    return vector("private")


@pytest.fixture
def bb_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BbOptions:
    """A stand-in that refuses all."""
    working_directory = tmp_path / "proofs"
    (working_directory / "setup").mkdir(parents=True)
    (working_directory / "setup" / "grumpkin_g1.flat.dat").write_bytes(set_grumpkin(monkeypatch))
    program = stand_in(tmp_path / "bb", 'echo "verification failed at a step" >&2', "exit 1")
    return BbOptions(working_directory=working_directory, binary_path=program)


def test_networks_without_real_proofs_do_not_verify(tx: Tx, bb_options: BbOptions) -> None:
    judge = open_judge(required=False, bb=bb_options)
    assert judge.judge(tx) == VALID
    assert judge.limitation is None
    assert not judge.verifies
    assert judge.status()["verifier"] is None
    assert judge.summary == "not asked for by this network"
    judge.close()


def test_networks_with_real_proofs_say_what_is_missing(tx: Tx) -> None:
    judge = open_judge(required=True)
    assert judge.judge(tx) == Verdict.unknown(NO_VERIFIER)
    assert judge.limitation == NO_VERIFIER
    assert judge.verdicts[Judgement.UNKNOWN] == 1
    assert judge.summary == NO_VERIFIER


def test_a_command_judges_on_every_network(tx: Tx) -> None:
    for required in (True, False):
        judge = open_judge(required=required, command="false")
        assert judge.judge(tx) == Verdict.invalid(INVALID_PROOF)
        assert judge.verifies
        assert judge.limitation is None
        assert judge.status()["verifier"] == "command"
        assert judge.summary == "command: 0 valid, 1 invalid, 0 unknown"
    with pytest.raises(SettingError):
        open_judge(required=True, command="nowhere-to-be-found")


def test_the_program_judges_as_soon_as_the_network_is_known(tx: Tx, bb_options: BbOptions) -> None:
    judge = open_judge(required=True, bb=bb_options)
    verdict = judge.judge(tx)
    assert verdict.judgement is Judgement.UNKNOWN
    assert "its root of verification keys is unknown" in verdict.reason
    assert judge.limitation == verdict.reason
    judge.use_network(FOUR.vk_tree_root)
    assert judge.judge(tx) == Verdict.invalid(INVALID_PROOF)
    assert judge.limitation is None
    assert judge.status()["state"] == "ready"
    judge.use_network(bytes(32))
    assert judge.judge(vector("public")).judgement is Judgement.UNKNOWN
    judge.close()


def test_proofs_can_be_required_while_the_node_runs(tx: Tx, bb_options: BbOptions) -> None:
    judge = open_judge(required=False, bb=bb_options, tree_root=FOUR.vk_tree_root)
    assert judge.judge(tx) == VALID
    judge.require(True)
    assert judge.judge(tx) == Verdict.invalid(INVALID_PROOF)
    judge.require(False)
    assert judge.judge(tx) == VALID
    judge.close()
    assert list(bb_options.working_directory.glob("checks-*")) == []
