"""Providers that flip, stall, limit and cut: nothing wrong is stored, and each has its line."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.conftest import PATIENCE_S
from tests.sources.l1.derivation.deriving import Deriving, has
from tests.sources.l1.publishing import PublishingL1, publish
from tests.sources.made_chain import SHAPE, MadeChain
from tests.sources.scripted_upstream import RejectionError

from fastnode.development.synthetic_chain import ChainShape
from fastnode.errors import DecodeError, UpstreamError


@pytest.fixture
def shape() -> ChainShape:
    """Messages stay where they are when checkpoints are replaced, so this chain has none."""
    return replace(SHAPE, l1_to_l2=0)


def reasons(node: Deriving) -> str:
    return str(node.reader.describe()["nodes"][0]["reason"])


def pass_until(node: Deriving, condition: Callable[[], bool]) -> None:
    """Passes, those that fail too, until something is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, reasons(node)
        try:
            node.pass_()
        except (UpstreamError, DecodeError, AssertionError):
            continue


def test_a_provider_that_flips_between_two_forks_leaves_one_of_them(
    node: Deriving, chain: MadeChain, l1: PublishingL1
) -> None:
    """Behind one address there are two nodes that do not agree: any call may be answered by either."""
    node.pass_()
    fork = len(l1.blocks)
    chain.checkpoint(2)
    publish(l1, chain.units[-1])
    l1.mine(2)
    one, one_roots = list(l1.blocks), [unit.blocks[-1].archive.root for unit in chain.units]
    with l1.lock:
        l1.reorg(len(l1.blocks) - fork)
        chain.undo_to(chain.units[2].blocks[-1].number)
        chain._chain._content.body()  # so that it goes another way
        chain.checkpoint(1)
        publish(l1, chain.units[-1])
        l1.mine(3)
    other, other_roots = list(l1.blocks), [unit.blocks[-1].archive.root for unit in chain.units]
    assert one_roots[3] != other_roots[3]
    choice = random.Random(3)
    answer = l1._answer_one

    def flip(call: dict[str, Any]) -> dict[str, Any]:
        l1.blocks = choice.choice((one, other))
        return answer(call)

    l1._answer_one = flip  # type: ignore[method-assign]
    for _ in range(60):
        try:
            node.pass_()
        except (UpstreamError, DecodeError, AssertionError):
            continue
        view = node.ingestor.view
        stored = [view.checkpoint(number) for number in range(1, node.checkpoint + 1)]
        roots = [bytes.fromhex(json.loads(item.archive_json)["root"][2:]) for item in stored if item is not None]
        assert roots in (one_roots[:3], one_roots, other_roots), "a mixture"
    l1._answer_one = answer  # type: ignore[method-assign]
    l1.blocks = other
    pass_until(node, lambda: has(node, chain))


@pytest.mark.parametrize(
    ("break_", "reason"),
    [
        (lambda: RejectionError(429, "Too Many Requests"), "it limits requests"),
        (lambda: RejectionError(-32005, "rate limit exceeded"), "it limits requests"),
        (lambda: RejectionError(-32603, "internal error"), "internal error"),
    ],
    ids=["429", "rate", "internal"],
)
def test_a_provider_that_refuses_is_named_and_left_alone_for_a_while(
    node: Deriving, chain: MadeChain, l1: PublishingL1, break_: Callable[[], RejectionError], reason: str
) -> None:
    node.pass_()
    is_broken = [True]

    def refuse(method: str, _parameters: Any, result: Any) -> Any:
        if is_broken[0] and method == "eth_call":
            raise break_()
        return result

    l1.tamper = refuse
    chain.checkpoint(1)
    publish(l1, chain.units[-1])
    deadline = time.monotonic() + PATIENCE_S
    while reason not in reasons(node):
        assert time.monotonic() < deadline
        node.reader._look_again()
    assert node.checkpoint == 3
    assert node.reader.describe()["nodes"][0]["waits"] >= 1
    is_broken[0] = False
    pass_until(node, lambda: has(node, chain))


@pytest.mark.parametrize("method", ["eth_call", "eth_getLogs", "eth_getTransactionByHash"])
@pytest.mark.parametrize(
    "half",
    [
        lambda result: result[: len(result) // 2] if isinstance(result, str | list) else dict(list(result.items())[:1]),
        lambda _result: None,
        lambda _result: {},
    ],
    ids=["half", "null", "empty"],
)
def test_half_an_answer_stores_nothing_and_is_asked_for_again(
    node: Deriving, chain: MadeChain, l1: PublishingL1, method: str, half: Callable[[Any], Any]
) -> None:
    node.pass_()
    left = [4]

    def cut(asked: str, _parameters: Any, result: Any) -> Any:
        if asked == method and left[0] and result:
            left[0] -= 1
            return half(result)
        return result

    l1.tamper = cut
    chain.checkpoint(2)
    publish(l1, chain.units[-1])
    pass_until(node, lambda: has(node, chain))
    assert left[0] < 4, "nothing was cut"


#: Members of answers that tell where on L1 a checkpoint is.
PLACES = {
    "eth_getBlockByHash": ("hash", "number"),
    "eth_getBlockByNumber": ("hash", "number", "parentHash"),
    "eth_getLogs": ("blockHash", "blockNumber"),
}


def place_liar(dice: random.Random, lies: int) -> Callable[[str, Any, Any], Any]:
    """Changes one digit of where something is, in some answers until it has told so many lies."""
    left = lies

    def tamper(method: str, _parameters: Any, result: Any) -> Any:
        nonlocal left
        record = dice.choice(result) if isinstance(result, list) and result else result
        if left == 0 or method not in PLACES or not isinstance(record, dict) or dice.random() < 0.5:
            return result
        left -= 1
        name = dice.choice(PLACES[method])
        text = record[name]
        at = dice.randrange(2, len(text))
        changed = record | {name: text[:at] + dice.choice("0123456789abcdef") + text[at + 1 :]}
        return [changed if item is record else item for item in result] if isinstance(result, list) else changed

    return tamper


@pytest.mark.parametrize("seed", range(40))
def test_no_checkpoint_is_stored_with_a_block_of_l1_that_a_provider_makes_up(
    node: Deriving, chain: MadeChain, l1: PublishingL1, seed: int
) -> None:
    dice = random.Random(seed)
    l1.tamper = place_liar(dice, dice.randint(1, 6))
    pass_until(node, lambda: has(node, chain))
    chain.checkpoint(1)
    with l1.lock:
        publish(l1, chain.units[-1])
    pass_until(node, lambda: has(node, chain))
    l1.tamper = lambda _method, _parameters, result: result
    pass_until(node, lambda: has(node, chain))
    true = {item.number: block for block in l1.blocks for item in block.proposals}
    view = node.ingestor.view
    for number in range(1, node.checkpoint + 1):
        stored = view.checkpoint(number)
        assert stored is not None
        place = json.loads(stored.l1_json)
        block = true[number]
        assert place["blockHash"] == "0x" + block.hash.hex(), number
        assert int(place["blockNumber"]) == block.number, number
