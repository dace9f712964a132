"""Settings that are read, checked and shown, and have no effect, with what they would need to have one.

They are there so that the configuration of a network's node can be kept as it is.  ``KEPT`` are those of parts that
this node does not have; a test compares them with the code: every other setting is used.  Others have no
effect beside certain settings, or only part of what their names promise: :func:`without_effect` knows all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final

from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.config.settings import Settings

__all__ = ["KEPT", "without_effect"]

_BUILDING: Final = {
    "acvm-binary-path",
    "acvm-working-directory",
    "bot-min-fee-padding",
    "fisherman-mode",
    "governance-proposer-payload",
    "initial-eth-per-fee-asset",
    "publish-txs-with-proposals",
}

#: What only a node that proposes checkpoints looks at.
_PROPOSED_HERE: Final = (
    "attestation-propagation-time",
    "build-checkpoint-if-empty",
    "enforce-time-table",
    "p2p-min-tx-pool-age-ms",
    "seconds-before-invalidating-block-as-committee-member",
    "seconds-before-invalidating-block-as-non-committee-member",
    "seq-polling-interval-ms",
    "skip-checkpoint-publish-percent",
)

#: What only a node that builds blocks looks at.
_BUILT_HERE: Final = (
    "coinbase",
    "fee-recipient",
    "max-txs-per-block",
    "max-txs-per-checkpoint",
    "min-txs-per-block",
    "validate-max-da-block-gas",
    "validate-max-l2-block-gas",
    "validate-max-txs-per-block",
    "validate-max-txs-per-checkpoint",
)

_LOCAL: Final = (
    "block-time-s",
    "dump-state",
    "finality-lag",
    "fork-block-number",
    "fork-from",
    "l1-clock-port",
    "load-state",
    "manual-proving",
    "mining",
    "prefund",
    "seed",
    "slot-duration-s",
    "state",
    "test-accounts",
)

#: What only a node that proves epochs looks at.
_PROVEN_HERE: Final = (
    "prover-command",
    "prover-id",
    "prover-partial-epochs",
    "prover-test-delay-ms",
)

_PROVING: Final = {
    "node-url",
    "prover-agent-count",
    "prover-cancel-jobs-on-stop",
    "prover-enqueue-concurrency",
    "prover-failed-proof-store",
    "prover-proof-store",
    "prover-test-delay-factor",
    "prover-test-delay-type",
}

_ATTESTING: Final = {
    "validator-attestations-polling-interval-ms",
    "validator-reexecute",
}

#: Votes on offenses.
_SLASHING: Final = {
    "slash-execute-rounds-look-back",
    "slash-max-payload-size",
    "slash-max-penalty-percentage",
    "slash-min-penalty-percentage",
    "slash-override-payload",
    "slash-unknown-penalty",
    "slash-validators-always",
}

_OTHER_NODES_TESTS: Final = {"seq-publisher-forwarder-address"}

#: What each needs, by name.
KEPT: Final[Mapping[str, str]] = {
    name: need
    for names, need in (
        (_BUILDING, "a part of a sequencer that this node does not have"),
        (_PROVING, "a prover of its own, which this node does not have: --prover-command names one"),
        (_ATTESTING, "a validator client of its own, which this node does not have: it executes what it attests to"),
        (_OTHER_NODES_TESTS, "a contract that tests of other nodes deploy"),
        (_SLASHING, "votes on offenses, in which this node takes no part"),
    )
    for name in names
}

#: What only a node that writes to L1 looks at.
_WRITING: Final = (
    "l1-blob-fee-per-gas-max",
    "l1-gas-limit-buffer-percentage",
    "l1-gas-price-max",
    "l1-minimum-priority-fee-per-gas-gwei",
    "l1-priority-fee-bump-percentage",
    "l1-priority-fee-retry-bump-percentage",
    "l1-tx-monitor-cancel-tx-on-timeout",
    "l1-tx-monitor-check-interval-ms",
    "l1-tx-monitor-max-attempts",
    "l1-tx-monitor-stall-time-ms",
    "l1-tx-monitor-tx-cancellation-timeout-ms",
    "l1-tx-monitor-tx-timeout-ms",
    "l1-tx-monitor-tx-unseen-considered-dropped-ms",
    "prover-publisher-addresses",
    "prover-publisher-private-keys",
    "publisher-balance-min-eth",
    "seq-publisher-addresses",
    "seq-publisher-allow-invalid-states",
    "seq-publisher-private-keys",
    "validator-private-keys",
    "web3-signer-url",
)

_SIGNING: Final = (
    "key-store-directory",
    "validator-addresses",
    "validator-disabled",
    "validator-ha-database-url",
    "validator-ha-max-stuck-duties-age-ms",
    "validator-ha-node-id",
    "validator-ha-old-duties-max-age-h",
    "validator-ha-polling-interval-ms",
    "validator-ha-pool-connection-timeout-ms",
    "validator-ha-pool-idle-timeout-ms",
    "validator-ha-pool-max",
    "validator-ha-pool-min",
    "validator-ha-signing-timeout-ms",
)

_WATCHING: Final = (
    "sentinel-historic-proven-performance-length-in-epochs",
    "sentinel-history-length-in-epochs",
    "slash-attest-descendant-of-invalid-penalty",
    "slash-data-withholding-penalty",
    "slash-duplicate-attestation-penalty",
    "slash-duplicate-proposal-penalty",
    "slash-grace-period-l2-slots",
    "slash-inactivity-consecutive-epoch-threshold",
    "slash-inactivity-penalty",
    "slash-inactivity-target-percentage",
    "slash-invalid-block-penalty",
    "slash-offense-expiration-rounds",
    "slash-propose-invalid-attestations-penalty",
    "slash-prune-penalty",
    "slash-self-allowed",
    "slash-validators-never",
    "slashing-offset-in-rounds",
    "slashing-round-size-in-epochs",
)


#: Of a chain that is derived from L1.
_DERIVING: Final = (
    "archiver-batch-size",
    "blob-allow-empty-sources",
    "blob-archive-api-url",
    "blob-file-store-upload-url",
    "blob-file-store-urls",
    "ethereum-allow-no-debug-hosts",
    "ethereum-debug-hosts",
    "l1-consensus-host-api-key-headers",
    "l1-consensus-host-api-keys",
    "l1-consensus-host-urls",
)


@dataclass(frozen=True, slots=True)
class _Missing:
    """Settings that do nothing, or less than they say, when ``is_so`` of all settings."""

    names: Collection[str]
    is_so: Callable[[Settings], bool]
    need: str


_BESIDE_OTHERS: Final = (
    _Missing(
        _SIGNING,
        lambda settings: not settings.sequencer,
        "--sequencer: without it keys are loaded, and sign nothing",
    ),
    _Missing(
        _WRITING,
        lambda settings: not (settings.sequencer or settings.prover_node),
        "--sequencer or --prover-node",
    ),
    _Missing(_PROPOSED_HERE, lambda settings: not settings.sequencer, "--sequencer"),
    _Missing(
        _BUILT_HERE,
        lambda settings: not (settings.local_network or settings.sequencer),
        "--local-network or --sequencer",
    ),
    _Missing(
        ("prover-real-proofs",),
        lambda settings: not settings.derives_from_l1,
        "a chain that is learned from L1 (--l1-rpc-urls and a place of blobs): others say so themselves",
    ),
    _Missing(_PROVEN_HERE, lambda settings: not settings.prover_node, "--prover-node"),
    _Missing(_LOCAL, lambda settings: not settings.local_network, "--local-network"),
    _Missing(_DERIVING, lambda settings: not settings.derives_from_l1, "--l1-rpc-urls and a place of blobs"),
    _Missing(_WATCHING, lambda settings: not settings.sentinel_enabled, "--sentinel-enabled"),
)


def without_effect(settings: Settings, given: Collection[str]) -> dict[str, list[str]]:
    """Names of the settings in ``given`` that have no effect, in order, by what they would need."""
    needs = {name: KEPT[name] for name in given if name in KEPT}
    for missing in _BESIDE_OTHERS:
        if missing.is_so(settings):
            needs |= {name: missing.need for name in given if name in missing.names}
    found: dict[str, list[str]] = {}
    for name in sorted(needs):
        found.setdefault(needs[name], []).append(name)
    return found
