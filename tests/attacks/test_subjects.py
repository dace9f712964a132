"""What an attacker may try, and the tests in which a whole node lives through it: one place to look for them.

Each of these tests starts nodes as processes, gives them the attacker's input, and asks them whether they are at the
tip and well, with the result that the published node has.  Every subject has tests of its parts beside them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FROM_L1 = "attacks/test_from_l1.py"
IN_TRANSACTIONS = "attacks/test_in_transactions.py"
FROM_PEERS = "attacks/test_from_peers.py"
SCENARIOS = "derivation/test_scenarios.py"
DERIVED_ALIKE = (SCENARIOS, "a_node_derives_what_the_network_does_from_a_hostile_l1")

#: Subject: (file, test) of whole nodes.
SUBJECTS: dict[str, tuple[tuple[str, str], ...]] = {
    # From L1.
    "attestations with a v or s that contracts refuse": (
        (FROM_L1, "signatures_that_contracts_refuse"),
        DERIVED_ALIKE,
    ),
    "a refused checkpoint that is proposed again with good attestations": (
        (FROM_L1, "a_checkpoint_that_was_refused_and_comes_again_with_good_attestations"),
        DERIVED_ALIKE,
    ),
    "logs that do not decode, such as of seven blobs": ((FROM_L1, "logs_that_do_not_decode"),),
    "proposals behind many calls, and calls in calls": (
        (FROM_L1, "proposals_behind_many_and_nested_calls"),
        DERIVED_ALIKE,
    ),
    "refused checkpoints whose blobs, headers or roots make no sense": (
        (FROM_L1, "refused_checkpoints_with_any_content"),
        DERIVED_ALIKE,
    ),
    "finality from one lying answer": ((FROM_L1, "finality_from_one_lying_answer"),),
    "headers of answers that end a reader": ((FROM_L1, "headers_of_answers"),),
    # In blocks and transactions.
    "bytecode that ends with a chunk of 31 zero bytes: pool, blocks, L1, getContractClass": (
        (IN_TRANSACTIONS, "bytecode_that_ends_with_a_chunk_of_zeros"),
        ("public_execution/test_node.py", "hostile_programs_end_as_everywhere_and_the_node_goes_on"),
    ),
    "memory that a transaction can buy for its gas": (
        (IN_TRANSACTIONS, "memory_that_a_transaction_can_buy"),
        ("public_execution/test_node.py", "hostile_programs_end_as_everywhere_and_the_node_goes_on"),
    ),
    "gas limits above the mana limit in blocks of others": (
        (FROM_PEERS, "gas_limits_above_the_mana_limit_in_blocks_of_others"),
    ),
    "transactions of another network in proposals": ((FROM_PEERS, "transactions_of_another_network_in_proposals"),),
    "limits of debug logs": ((IN_TRANSACTIONS, "debug_logs_up_to_their_limits"),),
    "class logs that publish nothing, and what is said of them": (
        (IN_TRANSACTIONS, "class_logs_that_publish_nothing"),
    ),
    "flags of transactions that are neither 0 nor 1": ((IN_TRANSACTIONS, "flags_that_are_neither_0_nor_1"),),
    # From peers.
    "bytes behind a message or none at its end: read, and forwarded as they came": (
        ("p2p/test_nodes.py", "a_transaction_that_published_nodes_take_is_handed_on_as_it_came"),
        (FROM_PEERS, "forms_of_messages_that_published_nodes_read"),
    ),
    "proposals that published nodes punish": ((FROM_PEERS, "proposals_that_published_nodes_punish"),),
    "checkpoints whose blobs hash is not that of their blocks": (
        (FROM_PEERS, "a_checkpoint_whose_blobs_hash_is_not_that_of_its_blocks"),
    ),
}


def named() -> Iterator[tuple[str, str]]:
    for tests in SUBJECTS.values():
        yield from tests


def functions(file: str) -> dict[str, ast.FunctionDef]:
    tree = ast.parse((TESTS / file).read_text())
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_each_subject_has_tests_of_whole_nodes(subject: str) -> None:
    for file, name in SUBJECTS[subject]:
        assert f"test_{name}" in functions(file), f"{file} has no test_{name}"


@pytest.mark.parametrize("file", sorted({file for file, _ in named() if file.startswith("attacks/")}))
def test_each_test_of_attacks_has_a_subject(file: str) -> None:
    """A new one is said here, so that it is found."""
    tests = {name.removeprefix("test_") for name in functions(file) if name.startswith("test_")}
    assert tests == {name for place, name in named() if place == file}
