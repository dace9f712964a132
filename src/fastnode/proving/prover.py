"""The prover node: a thread that proves epochs when they are complete, and moves the proven tip of L1.

proven tip ── next epoch complete? ── its checkpoints, as L1 has them ── executed again where that is possible
    ── batched blob ── the proof, none for a mock verifier ── submitEpochRootProof ── its event
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from fastnode.errors import DecodeError, EpochNotProven, UpstreamError, UpstreamRejection
from fastnode.log import log_facts
from fastnode.loop import Loop
from fastnode.proving.command import make_proof, render_inputs
from fastnode.proving.epoch import EpochInputs, collect, next_epoch, require_same_on_l1
from fastnode.proving.reexecution import Reexecution, Verdict
from fastnode.publishing.encoding import arguments, byte_string, selector, words
from fastnode.records import dataclass
from fastnode.sources.l1.abi import hex_data, quantity
from fastnode.sources.l1.endpoints import L1Endpoint
from fastnode.sources.l1.rollup import RollupFacts
from fastnode.sources.l1.terms import STATE_SLOT

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.publishing.propose import EpochProof
    from fastnode.sources.l1.service import L1Reader
    from fastnode.view import View

__all__ = ["NEEDS_COMMAND", "ProofPublisher", "Prover", "ProverOptions", "has_mock_verifier"]

logger = logging.getLogger("fastnode.prover")

#: Storage slot of the rollup's verifier, counted from the begin of its state.
_VERIFIER_WORD: Final = 7
_VERIFY: Final = selector("verify(bytes,bytes32[])")
_ADDRESS_BYTES: Final = 20
#: Number of further tries for an epoch that could not be proven.
RETRY_S: Final = 5.0

NEEDS_COMMAND: Final = (
    "--prover-node: the rollup's verifier on L1 checks proofs; give a program that makes them with --prover-command "
    "(docs/sequencer.md), or leave --prover-node out"
)


class ProofPublisher(Protocol):
    def submit(self, proof: EpochProof, what: str, at: int) -> str:
        """Hash of the transaction once L1 has taken the proof; EpochNotProven with the reason when it does not.

        ``at``: the time that the next block of L1 can have.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ProverOptions:
    """``command`` None: there is no proof to make, the verifier takes any.  ``delay_s``: how long that takes."""

    prover_id: bytes
    command: str | None = None
    proves_parts: bool = False
    delay_s: float = 0.0
    poll_s: float = 0.5


def has_mock_verifier(endpoint: L1Endpoint, rollup: bytes) -> bool:
    """True if the rollup's verifier takes an empty proof of nothing."""
    slot = [hex_data(rollup), quantity(STATE_SLOT + _VERIFIER_WORD), "latest"]
    word = endpoint.results([("eth_getStorageAt", slot)])[0]
    verifier = bytes.fromhex(str(word).removeprefix("0x"))[-_ADDRESS_BYTES:]
    data = _VERIFY + arguments((byte_string(b""),), (words([]),))
    answer = endpoint.answers([("eth_call", [{"to": hex_data(verifier), "data": hex_data(data)}, "latest"])])[0]
    return not isinstance(answer, UpstreamRejection) and int(str(answer) if answer != "0x" else "0x0", 16) == 1


class Prover:
    """``start`` it once, ``stop`` it."""

    def __init__(
        self,
        reader: L1Reader,
        view: Callable[[], View | None],
        reexecution: Reexecution,
        publisher: ProofPublisher,
        options: ProverOptions,
        tx_json: Callable[[bytes], bytes | None],
    ) -> None:
        self._reader = reader
        self._view = view
        self._reexecution = reexecution
        self._publisher = publisher
        self._options = options
        self._tx_json = tx_json
        self._loop = Loop(
            "fastnode-prover", self._turn, what="epochs are not proven", clock=reader.clock, on_error=self._on_broken
        )
        #: The epoch whose proof is due, and its first checkpoint.
        self._due: tuple[int, int] | None = None
        #: The newest proof that L1 has taken: its end.
        self._sent: tuple[int, int] = (-1, -1)
        self._retry_at = 0.0
        self._is_mock: bool | None = None
        self.state = "starting"
        self.trouble: str | None = None
        self.epochs = self.checkpoints = self.failures = 0
        self.reexecuted = self.not_reexecuted = 0
        self.seconds = 0.0

    def reconfigure(self, *, prover_id: bytes, delay_s: float) -> None:
        """From the next epoch that is proven on."""
        self._options = replace(self._options, prover_id=prover_id, delay_s=delay_s)

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        self._loop.close()

    def troubles(self) -> dict[str, str | None]:
        return {"prover": self._loop.trouble or self.trouble}

    def summary(self) -> str:
        return f"{self.state}; {self.epochs} epochs proven"

    def describe(self) -> dict[str, Any]:
        """For status reports."""
        return {
            "state": self.state,
            "trouble": self.trouble,
            "proverId": hex_data(self._options.prover_id),
            "epochs": self.epochs,
            "checkpoints": self.checkpoints,
            "failures": self.failures,
            "blocksReexecuted": self.reexecuted,
            "blocksByRootsAlone": self.not_reexecuted,
            "seconds": round(self.seconds, 3),
        }

    # ---- the thread ----------------------------------------------------------------------------

    def _turn(self) -> float:
        try:
            self._reexecution.work()
            if self._loop.clock.monotonic() >= self._retry_at:
                self._look()
        except (UpstreamError, DecodeError) as error:
            self.state = f"waits for L1: {error}"
        except EpochNotProven as error:
            self._fail(str(error))
        return self._options.poll_s

    def _on_broken(self) -> None:
        """A bug must not end the prover: the next epoch may be another one."""
        self.failures += 1
        self.state = self._loop.trouble or self.state
        self._retry_at = self._loop.clock.monotonic() + RETRY_S

    def _fail(self, reason: str) -> None:
        if self._loop.is_stopping:
            return
        self.failures += 1
        if reason != self.trouble:
            logger.warning("an epoch is not proven", extra=log_facts(reason=reason))
        self.trouble = self.state = reason
        self._retry_at = self._loop.clock.monotonic() + RETRY_S

    def _look(self) -> None:
        facts, state = self._reader.seen()
        view = self._view()
        if view is None or not self._may_prove(facts):
            return
        chain = view.chain
        current = facts.epoch_at(self._reader.newest_timestamp)
        self._account_for_pruned(chain, state.proven, facts, current)
        found = next_epoch(
            chain,
            state.proven,
            current_epoch=current,
            is_partial=self._options.proves_parts,
            proof_epochs=facts.proof_submission_epochs,
        )
        if found is None or found[1:] == self._sent:
            self.state = f"waits for epoch {current} to be complete" if found is None else self.state
            return
        self._prove(view, facts, *found)

    def _account_for_pruned(self, chain: ChainView, proven: int, facts: RollupFacts, current: int) -> None:
        """Note an epoch that left the chain unproven, as it does when its time passes while L1 is not read."""
        first = chain.checkpoint(proven + 1) if chain.tips.checkpointed.checkpoint.number > proven else None
        found = None if first is None else (first.slot_number // facts.epoch_duration, first.number)
        due = self._due
        if due is not None and proven < due[1] and (found is None or found[0] != due[0]):
            if current <= due[0] + facts.proof_submission_epochs:
                return  # a reorg of L1 may bring it back
            self.failures += 1
            logger.warning("epoch pruned unproven", extra=log_facts(epoch=due[0], start=due[1]))
        self._due = found

    def _may_prove(self, facts: RollupFacts) -> bool:
        if self._options.command is not None:
            return True
        if self._is_mock is None:
            self._is_mock = self._reader.run(lambda endpoint: has_mock_verifier(endpoint, facts.rollup))
        if not self._is_mock:
            self.trouble = self.state = NEEDS_COMMAND
        return self._is_mock

    def _prove(self, view: View, facts: RollupFacts, epoch: int, start: int, end: int) -> None:
        begun = self._loop.clock.monotonic()
        self.state = f"proving epoch {epoch}, checkpoints {start} to {end}"
        inputs = collect(view.chain, epoch, start, end)
        self._reader.run(lambda endpoint: require_same_on_l1(endpoint, facts, view.chain, inputs))
        executed, unknown = self._require_right(inputs)
        proof = self._make_proof(inputs, view, facts)
        at = self._reader.newest_timestamp + self._reader.slot_duration
        tx_hash = self._publisher.submit(inputs.proof(self._options.prover_id, proof), f"proof of epoch {epoch}", at)
        self._sent = (start, end)
        self.seconds = self._loop.clock.monotonic() - begun
        self.epochs += 1
        self.checkpoints += end - start + 1
        self.reexecuted += executed
        self.not_reexecuted += unknown
        self.trouble = None
        self.state = f"proved epoch {epoch}, checkpoints {start} to {end}"
        self._reader.look_soon()
        shown = log_facts(
            epoch=epoch,
            start=start,
            end=end,
            fees=sum(fee for _, fee in inputs.fees),
            reexecuted=executed,
            by_roots=unknown,
            proof_bytes=len(proof),
            l1_tx=tx_hash,
            seconds=round(self.seconds, 3),
        )
        logger.info("proved an epoch", extra=shown)

    def _require_right(self, inputs: EpochInputs) -> tuple[int, int]:
        """Numbers of blocks that were executed again and that could not be; EpochNotProven when one is wrong."""
        blocks = [block for content in inputs.blocks for block in content]
        verdicts = [self._reexecution.verdict_of(block) for block in blocks]
        if Verdict.WRONG in verdicts:
            number = blocks[verdicts.index(Verdict.WRONG)].number
            raise EpochNotProven(f"block {number}: its transactions do something else than its effects say")
        unknown = verdicts.count(Verdict.UNKNOWN)
        return len(blocks) - unknown, unknown

    def _make_proof(self, inputs: EpochInputs, view: View, facts: RollupFacts) -> bytes:
        options = self._options
        if options.command is None:
            if not self._loop.rest(options.delay_s):
                raise EpochNotProven("the node is stopping")
            return b""
        text = render_inputs(inputs, view.chain, facts, options.prover_id, self._tx_json)
        return make_proof(options.command, text, is_stopped=lambda: self._loop.is_stopping, environment=_environment())


def _environment() -> dict[str, str]:
    """Variables of the node's environment for the program: nothing that could be a secret."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
