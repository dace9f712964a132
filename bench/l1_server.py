"""L1 and a consensus client with the checkpoints of a chain file, for the benchmark of derivation.

l1_server.py FILE DELAY      each answer comes DELAY seconds late

Prints one line of JSON when everything is published: both URLs, the registry, the newest block, transactions.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from pathlib import Path

from tests.sources.l1.publishing import PublishingL1, served

from fastnode.archiver.source import CheckpointRecord
from fastnode.sources.chain_file import ChainFileSource


def main(file: Path, delay_s: float) -> None:
    with ChainFileSource(file) as source:
        l1 = PublishingL1(source.chain.node_info, source.chain.l1_constants)
        l1.disturb = lambda _handler, _body: bool(time.sleep(delay_s))
        l1.beacon.delay_s = delay_s
        l1.beacon.serves_bytes = True
        block_count = tx_count = 0
        for record in source.records():
            if not isinstance(record, CheckpointRecord):
                continue
            if record.l1_to_l2_messages:
                l1.send(*record.l1_to_l2_messages, checkpoint=record.number)
            l1.publish(l1.sheet(record.published), proven=record.number)
            block_count += record.block_count
            tx_count += sum(len(block.body.tx_effects) for block in record.published.checkpoint.blocks)
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    with served(l1):
        shown = {"l1": l1.url, "beacon": l1.beacon.url, "registry": l1.addresses.registry}
        print(json.dumps(shown | {"blocks": block_count, "txs": tx_count}), flush=True)
        stopped.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
