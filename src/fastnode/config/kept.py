"""Settings that are read, checked and shown, and have no effect: they are for parts that this node does not have.

They are there so that the configuration of a network's node can be kept as it is.  A test holds the list to the code:
whatever is not in it is used somewhere.
"""

from __future__ import annotations

from typing import Final

__all__ = ["KEPT"]

_BUILDING: Final = {
    "acvm-binary-path",
    "acvm-working-directory",
    "archiver-batch-size",
    "attestation-propagation-time",
    "bot-min-fee-padding",
    "build-checkpoint-if-empty",
    "coinbase",
    "enforce-time-table",
    "expected-block-proposals-per-slot",
    "fee-recipient",
    "fisherman-mode",
    "governance-proposer-payload",
    "initial-eth-per-fee-asset",
    "max-txs-per-block",
    "max-txs-per-checkpoint",
    "min-txs-per-block",
    "p2p-min-tx-pool-age-ms",
    "publish-txs-with-proposals",
    "seconds-before-invalidating-block-as-committee-member",
    "seconds-before-invalidating-block-as-non-committee-member",
    "seq-polling-interval-ms",
    "skip-checkpoint-publish-percent",
}

_BLOBS: Final = {
    "blob-archive-api-url",
    "blob-file-store-upload-url",
    "blob-file-store-urls",
}

_PROVING: Final = {
    "node-url",
    "prover-agent-count",
    "prover-cancel-jobs-on-stop",
    "prover-enqueue-concurrency",
    "prover-failed-proof-store",
    "prover-id",
    "prover-proof-store",
    "prover-real-proofs",
    "prover-test-delay-factor",
    "prover-test-delay-ms",
    "prover-test-delay-type",
}

_ATTESTING: Final = {
    "validate-max-txs-per-block",
    "validate-max-txs-per-checkpoint",
    "validator-attestations-polling-interval-ms",
    "validator-reexecute",
}

#: Votes on offenses, and offenses that only a member of the peer-to-peer network sees.
_SLASHING: Final = {
    "slash-data-withholding-penalty",
    "slash-execute-rounds-look-back",
    "slash-invalid-block-penalty",
    "slash-max-payload-size",
    "slash-max-penalty-percentage",
    "slash-min-penalty-percentage",
    "slash-override-payload",
    "slash-prune-penalty",
    "slash-unknown-penalty",
    "slash-validators-always",
}

#: By name.
KEPT: Final = frozenset(_BUILDING | _BLOBS | _PROVING | _ATTESTING | _SLASHING)
