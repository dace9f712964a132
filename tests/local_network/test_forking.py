"""Local networks that begin with a copy of another chain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import SAMPLE_CHAIN

from fastnode.errors import StartError
from fastnode.testing import local_network

#: The last block of a checkpoint of the sample chain, and the one after it.
END_OF_CHECKPOINT = 16
VERSION = 3658137161


def test_a_chain_file_goes_on_here() -> None:
    with local_network(f"--fork-from={SAMPLE_CHAIN}", "--fork-block-number=16", "--no-test-accounts") as network:
        assert network.call("node_getVersion") == VERSION
        assert network.call("node_getNodeInfo")["realProofs"] is False
        tip = network.block_number
        assert tip >= END_OF_CHECKPOINT
        assert network.mine() == tip + 1
        assert network.call("node_getL2Tips")["proven"]["block"]["number"] == tip + 1


def test_a_copy_ends_with_a_whole_checkpoint_and_has_the_test_accounts_funded() -> None:
    flags = (f"--fork-from={SAMPLE_CHAIN}", "--fork-block-number=14", "--no-mining")
    with local_network(*flags, in_process=True) as network:
        headers = [network.call("node_getBlockHeader", number) for number in range(1, network.block_number + 1)]
        forked = [header for header in headers if int(header["globalVariables"]["timestamp"]) < 1_795_300_000]
        assert len(forked) == 11
        slot = "0x0b480339a5ee4744b0ef27dbe56bd82bf6a6e4534439098861a3e9a334693200"
        witness = network.call("node_getPublicDataWitness", "latest", slot)
        assert int(witness["leafPreimage"]["leaf"]["value"], 16) == 10**22


def test_a_data_directory_and_a_node_go_on_here(
    tmp_path: Path, start_node: Callable[..., Any], short_chain: Path
) -> None:
    node = start_node("--data-directory", tmp_path / "data", "--chain-file", short_chain).wait_until_serving()
    node.wait_for_line("chain file loaded")
    with local_network(f"--fork-from={node.url}", "--no-test-accounts", in_process=True) as network:
        assert network.call("node_getBlockHeader", 16) == node.call("node_getBlockHeader", 16)["result"]
        assert network.block_number >= 16
    node.stop()
    with local_network(f"--fork-from={tmp_path / 'data'}", "--no-test-accounts", in_process=True) as network:
        assert network.call("node_getVersion") == VERSION
        assert network.block_number >= 16


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((f"--fork-from={SAMPLE_CHAIN}", "--fork-block-number=1000"), "the newest block there is 106"),
        (("--fork-from=/nowhere",), "/nowhere"),
        (("--fork-from=http://127.0.0.1:9",), "--fork-from http://127.0.0.1:9"),
        (("--fork-block-number=5",), "--fork-block-number needs --fork-from"),
        ((f"--fork-from={SAMPLE_CHAIN}", "--state=here"), "give one of them"),
    ],
)
def test_what_cannot_be_copied_is_named(flags: tuple[str, ...], words: str) -> None:
    with pytest.raises(StartError, match=words), local_network(*flags, in_process=True):
        pass
