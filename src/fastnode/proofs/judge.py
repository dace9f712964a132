"""Verifier that judges the proofs of this network's transactions, and its state.

--proof-verifier-command      that command, on every network: it was asked for
no real proofs (node info)    no judge: the proof is not looked at
else                          bb (verifier.py), as soon as the network's root of verification keys is known
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any, Final

from fastnode.proofs.command import CommandVerifier
from fastnode.proofs.verdict import VALID, Judgement, Verdict
from fastnode.proofs.verifier import BbOptions, BbVerifier, find_program
from fastnode.protocol.tx import Tx

__all__ = ["NO_VERIFIER", "ProofJudge", "open_judge"]

NO_VERIFIER: Final = (
    "Proof cannot be verified: this node has no proof verifier (fastnode proofs install, --bb-binary-path; on a test "
    "network that has no real proofs, --no-prover-real-proofs at the first start)"
)


class ProofJudge:
    """Judges proofs with what the settings and the network ask for.  Usable from any thread.

    ``bb`` None: there is no directory for its files, so only a command can judge.
    """

    def __init__(self, *, required: bool, command: CommandVerifier | None = None, bb: BbVerifier | None = None) -> None:
        self._required = required
        self._command = command
        self._bb = bb
        #: Proofs judged, by verdict.
        self.verdicts: Counter[Judgement] = Counter()

    @property
    def required(self) -> bool:
        """True if the network's proofs are real."""
        return self._required

    def require(self, required: bool) -> None:
        """From the next transaction on; a command is asked for any values of the network."""
        self._required = required
        self.start()

    def use_network(self, tree_root: bytes | None) -> None:
        """The network's root of verification keys has become known, or another."""
        if self._bb is not None:
            self._bb.use_network(tree_root)
        self.start()

    def expect_no_transactions(self) -> None:
        """No transaction is taken here, whatever happens: it is not an error that no proof can be judged."""
        if self._bb is not None:
            self._bb.failure_level = logging.INFO

    def start(self) -> None:
        """Begin to make ready what is needed, in the background."""
        if self._bb is not None and self._asks_bb:
            self._bb.start()

    @property
    def _asks_bb(self) -> bool:
        return self._required and self._command is None

    @property
    def verifies(self) -> bool:
        """True if the proof of an accepted transaction was checked."""
        return self._required or self._command is not None

    @property
    def limitation(self) -> str | None:
        """Reason why no proof can be judged now; None if proofs are judged, or need not be.

        Asking begins another try where the last failed a minute ago: a node that names this reason is sent no proof
        that would begin it.
        """
        if not self._asks_bb:
            return None
        if self._bb is None:
            return NO_VERIFIER
        # One that is made ready for the first time is no fault: a proof waits for it.
        if not self._bb.has_failed:
            return None
        self._bb.start_if_due()
        return self._bb.limitation

    @property
    def fault(self) -> str | None:
        """Reason why a verifier that is there does not work; None if it does, or if there is none."""
        # In this order: a health is asked for often, and to find the program is to look at the disk.
        if self._bb is None or not self._bb.has_failed or find_program(self._bb.options) is None:
            return None
        return self.limitation

    @property
    def summary(self) -> str:
        """State of the verifier, in a line for `/status` and `fastnode status`."""
        if not self.verifies:
            return "not asked for by this network"
        if (limitation := self.limitation) is not None:
            return limitation
        judged = ", ".join(f"{self.verdicts[judgement]} {judgement.value}" for judgement in Judgement)
        bb = self.bb
        if bb is None:
            return f"command: {judged}"
        queue = f"{bb.options.checks_at_once} at once, {bb.running_count} running, {bb.waiting_count} waiting"
        trouble = "" if bb.last_trouble is None else f"; last trouble: {bb.last_trouble}"
        return f"bb {bb.state.value}: {judged}; {queue}{trouble}"

    def judge(self, tx: Tx, client: str = "") -> Verdict:
        """The verdict; waits for it.  ``client``: for whom, so that each has its turn."""
        if self._command is not None:
            verdict = self._command.judge(tx)
        elif not self._required:
            return VALID
        elif self._bb is None:
            verdict = Verdict.unknown(NO_VERIFIER)
        else:
            verdict = self._bb.judge(tx, client)
        self.verdicts[verdict.judgement] += 1
        return verdict

    def status(self) -> dict[str, Any]:
        """For the status page and `fastnode status`."""
        facts: dict[str, Any] = {
            "required": self._required,
            "verifier": "command" if self._command is not None else "bb" if self._required else None,
            "limitation": self.limitation,
            "verdicts": {judgement.value: self.verdicts[judgement] for judgement in Judgement},
        }
        bb = self._bb
        if bb is None or not self._asks_bb:
            return facts
        program = find_program(bb.options)
        checked = sum(bb.checks.values())
        return facts | {
            "state": bb.state.value,
            "program": None if program is None else str(program),
            "checksAtOnce": bb.options.checks_at_once,
            "running": bb.running_count,
            "waiting": bb.waiting_count,
            "turnedAway": bb.turned_away_count,
            "checks": checked,
            "checkSeconds": round(bb.check_seconds, 3),
            "keptVerdictsUsed": bb.kept_hits,
            "lastTrouble": bb.last_trouble,
        }

    @property
    def bb(self) -> BbVerifier | None:
        """The network's verifier program, if it is the one that judges."""
        return self._bb if self._asks_bb else None

    def close(self) -> None:
        if self._bb is not None:
            self._bb.close()


def open_judge(
    *,
    required: bool,
    command: str | None = None,
    processes_max: int = 2,
    timeout_s: float = 30.0,
    bb: BbOptions | None = None,
    tree_root: bytes | None = None,
) -> ProofJudge:
    """From settings.  SettingError for a command that cannot be run."""
    chosen = None
    if command is not None:
        chosen = CommandVerifier.of_text(command, processes_max=processes_max, timeout_s=timeout_s)
    return ProofJudge(required=required, command=chosen, bb=None if bb is None else BbVerifier(bb, tree_root=tree_root))
