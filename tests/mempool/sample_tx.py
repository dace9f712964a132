"""Prints a transaction as a wallet sends it, for docs/getting-started.md: ``python -m tests.mempool.sample_tx``.

It is a recorded one that moves tokens in public, and fits behind the sample chain.  Its time of expiration, which has
passed, is moved far away, and its proof is made up: a node that does not verify proofs takes it.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from tests.mempool.recorded import recordings

from fastnode.protocol.tx_layout import USUAL

LABEL: Final = "token public transfer"
_EXPIRATION: Final = 1 << 40


def sample_tx() -> dict[str, Any]:
    recorded: dict[str, Any] = next(row["tx"] for row in recordings().values() if row["label"] == LABEL)
    data = bytearray(base64.b64decode(recorded["data"]))
    data[USUAL.expiration : USUAL.head_bytes] = _EXPIRATION.to_bytes(8, "big")
    # The hash follows from the data; wallets do not send it.
    members = ("chonkProof", "contractClassLogFields", "publicFunctionCalldata")
    return {"data": base64.b64encode(data).decode("ascii")} | {name: recorded[name] for name in members}


if __name__ == "__main__":
    print(json.dumps(sample_tx()))
