"""A committee of which two keys are in this node and two in a published one: each needs an attestation of the other.

The environment is that of ``test_live_with_reference.py``; the command that boots the published node takes P2P_ENABLED.

    FASTNODE_LIVE_MIXED    how many checkpoints they publish (20)
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.conftest import NodeProcess
from tests.ports import free_port
from tests.publishing.live_l1 import ANVIL, test_key
from tests.sequencing.published_node import ask
from tests.sequencing.test_live_with_reference import NEEDED, Network, Wallets

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(ANVIL is None or not all(map(os.environ.get, NEEDED)), reason="needs " + ", ".join(NEEDED)),
]

CHECKPOINTS = int(os.environ.get("FASTNODE_LIVE_MIXED", "20"))
MEMBERS, QUORUM = 4, 3
#: Room for a busy machine.
SLOT_S, BLOCK_MS = 24, 4000
KEYS = ["0x" + test_key(index).reveal().hex() for index in range(MEMBERS)]
ADDRESSES = [test_key(index).address.lower() for index in range(MEMBERS)]
ON_NETWORK = ("--p2p-enabled", "--p2p-listen-addr=127.0.0.1", "--p2p-ip=127.0.0.1")
TIMES = {"SEQ_BLOCK_DURATION_MS": str(BLOCK_MS), "SEQ_L1_PUBLISHING_TIME_ALLOWANCE_IN_SLOT": "4"}


def test_two_keys_here_and_two_in_a_published_node_make_a_quorum(
    tmp_path: Path, start_node: Callable[..., NodeProcess]
) -> None:
    with ExitStack() as stack:
        network = Network(tmp_path, start_node, stack, slot_s=SLOT_S, epoch_slots=4, committee=MEMBERS)
        theirs, ours = free_port(), free_port()
        reference = stack.enter_context(
            network.reference(
                ROLE="sequencer",
                KEYS=",".join(KEYS[:2]),
                P2P_ENABLED="true",
                P2P_IP="127.0.0.1",
                P2P_PORT=str(theirs),
                P2P_LISTEN_ADDR="127.0.0.1",
                DEBUG_P2P_DISABLE_COLOCATION_PENALTY="true",
                P2P_MIN_TX_POOL_AGE_MS="200",
                BLOB_FILE_STORE_UPLOAD_URL=network.blobs_there,
                **TIMES,
            )
        )
        peer = (f"--p2p-port={ours}", f"--p2p-peer=127.0.0.1:{theirs}", "--debug-p2p-disable-colocation-penalty")
        keys = {"VALIDATOR_PRIVATE_KEYS": ",".join(KEYS[2:]), "PROVER_PUBLISHER_PRIVATE_KEYS": KEYS[3]}
        flags = ("--sequencer", "--prover-node", "--blob-file-store-upload-url", network.blobs)
        fastnode = network.node(*flags, *ON_NETWORK, *peer, data="mixed", **keys, **TIMES)
        fastnode.wait_for_line("peer connected")
        wallets = Wallets(tmp_path, "mixed", fastnode.port, network.l1_port)
        stack.callback(wallets.kill)
        newest = network.watch(CHECKPOINTS, fastnode.port, reference)
        done, lost = wallets.finish()
        assert done["transactions"] == done["checkpointed"] + lost > 0
        proposers: Counter[str] = Counter()
        for number in range(1, newest + 1):
            (item,) = ask(reference, "node_getCheckpoints", number, 1)
            (other,) = ask(fastnode.port, "node_getCheckpoints", number, 1)
            assert other["attestations"] == item["attestations"]
            for key in ("header", "archive"):
                assert other["checkpoint"][key] == item["checkpoint"][key]
            proposers[item["checkpoint"]["header"]["coinbase"].lower()] += 1
            assert [set(each["signature"][2:]) == {"0"} for each in item["attestations"]].count(False) == QUORUM
        print(f"\n{newest} checkpoints by {dict(proposers)}; {done}; {lost} stood on blocks that were taken back")
        assert set(proposers) == {ADDRESSES[0], ADDRESSES[2]}
