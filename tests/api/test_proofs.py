"""Transactions whose proofs are judged: by the real program, and by stand-ins that say what a test needs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.api.test_txs import EXTENSION, FRESH, Node
from tests.api.test_txs import make_node as make_node
from tests.api.test_txs import node as node
from tests.mempool.chain import BookLedger
from tests.mempool.recorded import recorded_tx
from tests.proofs.conftest import MakeVerifier, files_left, set_grumpkin
from tests.proofs.conftest import bb as bb
from tests.proofs.conftest import make_verifier as make_verifier
from tests.proofs.conftest import setup_files as setup_files
from tests.proofs.programs import VECTORS, stand_in, toy_keys, toy_program, vector

from fastnode.errors import Refused
from fastnode.mempool.allow_list import default_allow_list
from fastnode.mempool.clock import SlotClock
from fastnode.mempool.network import NetworkIdentity
from fastnode.mempool.validation import TxValidationResult, TxValidator, ValidationRules
from fastnode.proofs.judge import ProofJudge, open_judge
from fastnode.proofs.verifier import BbOptions
from fastnode.protocol.header import GasFees
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx

#: A stand-in refuses a proof whose first byte is not zero, in its time, and takes any other.
REFUSES_MARKED = (
    'case "$(tail -c 61920 "$5" | head -c 32 | od -An -v -tx1 | tr -d " \\n")" in',
    "0000000000000000000000000000000000000000000000000000000000*) exit 0 ;;",
    "esac",
    'echo "verification failed at a step" >&2; exit 1',
)


@pytest.fixture
def judge_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ProofJudge]]:
    """Judges over stand-ins that do what the lines say."""
    working_directory = tmp_path / "proofs"
    (working_directory / "setup").mkdir(parents=True)
    (working_directory / "setup" / "grumpkin_g1.flat.dat").write_bytes(set_grumpkin(monkeypatch))
    made: list[ProofJudge] = []

    def make(*lines: str) -> ProofJudge:
        program = stand_in(tmp_path / "bb", *lines)
        bb = BbOptions(working_directory=working_directory, binary_path=program, checks_max=2)
        made.append(open_judge(required=True, bb=bb))
        return made[-1]

    yield make
    for judge in made:
        judge.close()


def marked(tx: Tx, number: int) -> Tx:
    """The same transaction with another proof, which a stand-in refuses."""
    return replace(tx, proof=number.to_bytes(32, "big").replace(b"\0", b"\1", 29) + tx.proof[32:])


# ---- the real program -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VECTORS)
def test_a_transaction_with_a_real_proof_is_valid_and_with_one_bit_changed_it_is_not(
    name: str, make_verifier: MakeVerifier, tmp_path: Path
) -> None:
    tx = vector(name)
    data = tx.data
    network = NetworkIdentity(data.chain_id, data.version, toy_keys().tree_root, data.protocol_contracts_hash)
    assert data.vk_tree_root == network.vk_tree_root
    setup_calls = tuple(
        replace(EXTENSION[1], address=call.contract_address, class_id=None, calldata_length=None)
        for call in data.setup_calls
    )
    judge = ProofJudge(required=True, bb=make_verifier(toy_program(tmp_path)))
    now = data.expiration_timestamp - 3600
    clock = SlotClock(genesis_time=now - 36_000, slot_duration=36, l1_slot_duration=12, now=lambda: now)
    ledger = BookLedger(head=1, blocks={data.anchor_block_hash})
    ledger.set_balance(data.fee_payer, 1 << 120)
    rules = ValidationRules(network=network, setup_allow_list=(*default_allow_list(FOUR), *setup_calls), release=FOUR)
    validator = TxValidator(rules, clock, judge)
    assert validator.validate(tx, ledger, GasFees(0, 0)) == TxValidationResult("valid")
    damaged = replace(tx, proof=tx.proof[:31] + bytes([tx.proof[31] ^ 1]) + tx.proof[32:])
    assert validator.validate(damaged, ledger, GasFees(0, 0)) == TxValidationResult("invalid", ("Invalid proof",))


# ---- what becomes of a transaction ---------------------------------------------------------------------


def test_a_valid_proof_lets_it_in_and_the_pool_knows_that_it_was_checked(
    node: Node, judge_with: Callable[..., ProofJudge]
) -> None:
    node.restart_mempool(judge=judge_with("exit 0"))
    assert node.send(FRESH[0]) == {}
    entry = node.mempool.pool.best()
    assert entry is not None
    assert entry.proof_checked


def test_where_proofs_are_not_asked_for_none_was_checked(node: Node) -> None:
    assert node.send(FRESH[0]) == {}
    entry = node.mempool.pool.best()
    assert entry is not None
    assert not entry.proof_checked


def test_an_invalid_proof_is_refused_and_a_verifier_that_fails_is_no_refusal(
    node: Node, judge_with: Callable[..., ProofJudge]
) -> None:
    node.restart_mempool(judge=judge_with('echo "verification failed at a step" >&2', "exit 1"))
    error = node.send(FRESH[0])["error"]
    assert error["message"] == "Invalid tx: Invalid proof"
    assert error["data"]["result"] == "invalid"
    node.restart_mempool(judge=judge_with("kill -9 $$"))
    error = node.send(FRESH[0])["error"]
    assert error["data"]["result"] == "skipped"
    assert error["data"]["reasons"] == ["Proof cannot be verified: the proof verifier failed"]
    assert node.call("node_getPendingTxCount") == {"result": 0}


def test_many_with_bad_proofs_do_not_keep_an_honest_one_out(
    node: Node, judge_with: Callable[..., ProofJudge], tmp_path: Path
) -> None:
    judge = judge_with(*REFUSES_MARKED)
    node.restart_mempool(judge=judge)
    base, honest = recorded_tx(FRESH[0]), recorded_tx(FRESH[1])
    honest = replace(honest, proof=bytes(32) + honest.proof[32:])
    refused: list[str] = []
    most_waiting = 0

    def attack(client: int) -> None:
        nonlocal most_waiting
        for number in range(5):
            try:
                node.mempool.send(marked(base, 1 + client * 100 + number), node.view, client=f"bad {client}")
            except Refused as error:
                refused.append(error.message)
            most_waiting = max(most_waiting, judge.status()["waiting"])

    attackers = [threading.Thread(target=attack, args=(client,)) for client in range(20)]
    for thread in attackers:
        thread.start()
    node.mempool.send(honest, node.view, client="honest")
    came_after = len(refused)
    for thread in attackers:
        thread.join()
    assert node.call("node_getPendingTxCount") == {"result": 1}
    assert len(refused) == 100
    assert came_after < 100
    assert set(refused) == {"Invalid tx: Invalid proof"}
    assert most_waiting <= 20
    assert files_left(tmp_path / "proofs") == []
