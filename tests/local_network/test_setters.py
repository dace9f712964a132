"""Random values for everything that a local network can be told: refused or served, and the directory starts again.

Eight are tried for each setter always, ten thousand with FASTNODE_LONG=1; FASTNODE_SEED=N tries other ones.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from tests.local_network.local_chain import NOW, LocalChain

from fastnode.api.local_network import methods
from fastnode.api.local_network_parameters import ETH_ADDRESS, MESSAGE, WORD
from fastnode.errors import FastnodeError
from fastnode.jsonrpc.methods import BoundMethod, Context, MethodTable
from fastnode.local_network.changes import Changes
from fastnode.local_network.kept_state import FILE_NAME
from fastnode.log_index.function_names import FunctionNames
from fastnode.values.choices import BOOLEAN
from fastnode.values.field_elements import ADDRESS, FIELD
from fastnode.values.value_type import ValueType

IS_LONG: Final = os.environ.get("FASTNODE_LONG") == "1"
SEED: Final = int(os.environ.get("FASTNODE_SEED", "41"))
#: Random values for each setter, half of them with each duration of slots.
VALUES: Final = 10_000 if IS_LONG else 8
#: Calls after which the network is stopped and started.
PER_LIFE: Final = 100
SETTERS: Final = (
    "fastnode_mine",
    "evm_mine",
    "fastnode_setAutomine",
    "fastnode_setIntervalMining",
    "fastnode_snapshot",
    "fastnode_revert",
    "fastnode_reorg",
    "fastnode_rollback",
    "fastnode_increaseTime",
    "fastnode_setTime",
    "fastnode_setNextBlockTimestamp",
    "fastnode_setBlockTimestampInterval",
    "fastnode_removeBlockTimestampInterval",
    "fastnode_warp",
    "aztecDebug_warpL2TimeAtLeastTo",
    "aztecDebug_warpL2TimeAtLeastBy",
    "fastnode_setFeeJuiceBalance",
    "fastnode_setPublicStorageAt",
    "fastnode_sendL1ToL2Message",
    "fastnode_bridgeFeeJuice",
    "fastnode_consumeL2ToL1Message",
    "fastnode_prove",
    "fastnode_finalize",
    "fastnode_setMinFee",
    "fastnode_setL1Fees",
    "fastnode_setCoinbase",
    "fastnode_setLoggingEnabled",
    "aztecDebug_registerContractFunctionSignatures",
)


def value(dice: random.Random) -> Any:
    kind = dice.random()
    number = dice.choice(
        [dice.randrange(5), dice.randrange(1 << 12), (1 << dice.randrange(1, 260)) - dice.choice([0, 1])]
    )
    if kind < 0.55:
        return number
    if kind < 0.65:
        return dice.choice([hex(number), str(number), f"+{number}", hex(number % (1 << 256))[2:].rjust(64, "0")])
    if kind < 0.75:
        return "0x" + dice.randbytes(dice.choice([20, 32, 32, 5])).hex()
    if kind < 0.8:
        return {"timestamp": number, "blocks": dice.randrange(4)}
    if kind < 0.85:
        return {
            "sender": "0x" + dice.randbytes(20).hex(),
            "recipient": "0x" + bytes(1).hex() + dice.randbytes(31).hex(),
            "content": hex(number),
            "secretHash": hex(number),
        }
    return dice.choice([None, True, False, -1, -number, 1.5, "", "abc", [], [number], {}, {"depth": number}, "0x"])


def typed(kind: ValueType, dice: random.Random) -> Any:
    """A value that a parameter may take, more often than not."""
    if kind in (ADDRESS, FIELD, WORD):
        return "0x00" + dice.randbytes(31).hex()
    if kind is ETH_ADDRESS:
        return "0x" + dice.randbytes(20).hex()
    if kind is BOOLEAN:
        return dice.random() < 0.5
    if kind is MESSAGE:
        record = {name: "0x00" + dice.randbytes(31).hex() for name in ("recipient", "content", "secretHash")}
        return record | {"sender": "0x" + dice.randbytes(20).hex()}
    place = dice.choice(
        [dice.randrange(8), NOW + dice.randrange(-10, 1 << dice.randrange(1, 40)), 1 << dice.randrange(70)]
    )
    return dice.choice([place, place, str(place), hex(place), f"+{place}"])


def arguments(method: BoundMethod, dice: random.Random) -> list[Any]:
    kinds = [parameter.type for parameter in method.parameters]
    if dice.random() < 0.1:
        return [value(dice) for _ in range(dice.randrange(4))]
    count = dice.choice([len(kinds), len(kinds), len(kinds), dice.randint(0, len(kinds))])
    return [typed(kind, dice) if dice.random() < 0.8 else value(dice) for kind in kinds[:count]]


def small(name: str, params: list[Any]) -> list[Any]:
    """Thousands of blocks are what a call may ask for, and take too long for a test."""
    if name in ("fastnode_mine", "fastnode_reorg") and params and isinstance(params[0], int) and params[0] > 20:
        return [params[0] % 20, *params[1:]]
    if name == "evm_mine" and params and isinstance(params[0], dict) and "blocks" in params[0]:
        return [params[0] | {"blocks": 2}]
    return params


@pytest.mark.parametrize("slot_duration", [1, 36])
def test_every_value_is_refused_or_served_and_the_directory_starts_again(tmp_path: Path, slot_duration: int) -> None:
    dice = random.Random(f"{SEED} {slot_duration}")
    outcomes: Counter[str] = Counter()
    names = [*SETTERS] * (VALUES // 2)
    dice.shuffle(names)
    for start in range(0, len(names), PER_LIFE):
        with LocalChain(tmp_path / "data", slot_duration=slot_duration, test_accounts=False) as chain:
            table = MethodTable(methods(chain.network, Changes(chain.network), FunctionNames()), "release")
            for name in names[start : start + PER_LIFE]:
                method = table.method(name)
                assert method is not None, name
                outcomes[ask(chain, method, small(name, arguments(method, dice)))] += 1
            chain.network.do(lambda: chain.network.mine_one(may_be_empty=True))
            assert chain.network.faults()["blocks"] is None
    print(dict(outcomes))
    assert outcomes["served"] > len(names) // 20
    assert orjson.loads((tmp_path / "data" / FILE_NAME).read_bytes().split(b"\n")[0])


def ask(chain: LocalChain, method: BoundMethod, params: list[Any]) -> str:
    """``refused`` or ``served``; anything else that is raised fails the test."""
    context = Context(chain.view, "release", 1 << 26)
    try:
        method.answer(context, params)
    except FastnodeError:
        return "refused"
    except Exception as error:
        raise AssertionError(f"{method.name} {params}: {error!r}") from error
    return "served"
