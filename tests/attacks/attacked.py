"""A node as a process, with a scripted L1 that anybody may write to, and what must hold whatever was written.

node = attacked(l1)                    # ``fastnode start --node``, L1 its only source
node.wait_for(chain)                   # at the tip, ready, nothing wrong with any part
node.wait_for_reason("checkpoint 3")   # /status says so; the process goes on
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from tests.conftest import PATIENCE_S, NodeProcess
from tests.sources.l1.publishing import PublishingL1
from tests.sources.made_chain import MadeChain

#: Of a node that looks at L1 all the time.
ON_L1 = (
    *("--l1-polling-interval-ms=10", "--archiver-polling-interval-ms=10", "--max-allowed-eth-client-drift-seconds=0"),
    *("--ethereum-allow-no-debug-hosts", "--metrics-port=0", "--disable-admin-api-key"),
)


def l1_flags(l1: PublishingL1) -> tuple[object, ...]:
    """Where the node finds L1, its blobs and its genesis."""
    flags: tuple[object, ...] = (
        *("--l1-rpc-urls", l1.url, "--l1-consensus-host-urls", l1.beacon.url),
        *("--registry-address", l1.addresses.registry, *ON_L1),
    )
    return flags if l1.genesis is None else (*flags, "--genesis", l1.genesis)


class AttackedNode:
    """A process that must neither end, nor stand, nor look well when it is not."""

    def __init__(self, process: NodeProcess) -> None:
        self.process = process.wait_until_serving()

    def ask(self, method: str, *parameters: object) -> Any:
        """The result, None where there is none; the whole answer where that is an error."""
        answer = self.process.call(method, *parameters)
        return answer if "error" in answer else answer.get("result")

    def components(self) -> dict[str, Any]:
        """What /status says of each part."""
        return self.process.components()

    def wrong(self) -> dict[str, Any]:
        """Parts that are not well, with the reason."""
        return {name: part for name, part in self.components().items() if not part["ok"]}

    def wait(self, is_so: Callable[[], object]) -> None:
        """The process must not end meanwhile."""
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert self.process.process.poll() is None, f"the node has ended: {self.process.log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, (self.ask("fastnode_getSyncStatus"), self.wrong())
            time.sleep(0.02)

    def wait_for(self, chain: MadeChain) -> None:
        """Until it has the newest checkpoint of ``chain``, and is well."""
        wanted = json.loads(json.dumps(chain.tips().checkpointed.to_json()))
        self.wait(lambda: self.ask("node_getL2Tips")["checkpointed"] == wanted)
        self.wait(lambda: self.process.readiness().startswith("OK") and not self.wrong())
        self.require_no_fault()

    def wait_for_reason(self, words: str) -> None:
        """Until some part is not well for a reason with these words: nothing looks healthy that is not."""
        self.wait(lambda: any(words in (part.get("reason") or "") for part in self.wrong().values()))

    def require_no_fault(self) -> None:
        """Nothing was raised that nobody expected."""
        faults = [line for line in self.process.log.read_text().splitlines() if "Traceback" in line]
        assert not faults, faults[0][:3000]

    def stop(self) -> None:
        assert self.process.stop() == 0
