"""Which verifier judges the proofs of a network's transactions.

* A network without real proofs (node info: ``realProofs`` false) accepts any proof; nothing is verified
  and nothing claims to be.
* On other networks an operator names a command.  It is run with the path of a file that holds the
  transaction's binary form (tx.py); exit code 0 means the proof holds, 1 that it does not.  Any other
  end, or none in time, leaves the proof unknown.
* Without a command every proof of such a network is unknown.

What becomes of a transaction with an unknown proof is decided in service.py: an upstream judges it, or it is refused.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fastnode.errors import SettingError
from fastnode.proofs.verdict import VALID, ProofVerifier, Verdict
from fastnode.protocol.tx import Tx

logger = logging.getLogger("fastnode.mempool")

INVALID_PROOF: Final = "Invalid proof"
NO_VERIFIER: Final = "Proof cannot be verified: this node has no proof verifier command"
VERIFIER_BUSY: Final = "Proof cannot be verified: all proof verifiers are busy"
VERIFIER_FAILED: Final = "Proof cannot be verified: the proof verifier failed"

EXIT_VALID: Final = 0
EXIT_INVALID: Final = 1

#: How much of a failing command's last words the log shows.
_QUOTED_BYTES: Final = 500


class ProofsNotVerified:
    """For networks without real proofs: whatever stands in the proof is not looked at."""

    limitation: str | None = None

    def judge(self, _tx: Tx) -> Verdict:
        return VALID


class NoVerifier:
    """For networks with real proofs when nothing here can verify them."""

    limitation: str | None = NO_VERIFIER

    def judge(self, _tx: Tx) -> Verdict:
        return Verdict.unknown(NO_VERIFIER)


class CommandVerifier:
    """Runs an external command per transaction, at most ``processes_max`` at a time, ``timeout_s`` each.

    A caller waits at most ``timeout_s`` for its turn.
    """

    limitation: str | None = None

    def __init__(self, command: Sequence[str], *, processes_max: int = 2, timeout_s: float = 30.0) -> None:
        if not command:
            raise SettingError("the proof verifier command is empty")
        self._command = tuple(command)
        self._timeout_s = timeout_s
        self._turns = threading.BoundedSemaphore(processes_max)

    def judge(self, tx: Tx) -> Verdict:
        if not self._turns.acquire(timeout=self._timeout_s):
            return Verdict.unknown(VERIFIER_BUSY)
        try:
            return self._run(tx)
        finally:
            self._turns.release()

    def _run(self, tx: Tx) -> Verdict:
        try:
            with tempfile.TemporaryDirectory(prefix="fastnode-proof-") as directory:
                path = Path(directory) / "tx.bin"
                path.write_bytes(tx.to_buffer())
                exit_code, said = self._exit_code(path, Path(directory) / "stderr")
        except subprocess.TimeoutExpired:
            logger.warning("the proof verifier did not end within %s s", self._timeout_s)
            return Verdict.unknown(VERIFIER_FAILED)
        except OSError as error:
            logger.warning("the proof verifier cannot be run: %s", error)
            return Verdict.unknown(VERIFIER_FAILED)
        if exit_code == EXIT_VALID:
            return VALID
        if exit_code == EXIT_INVALID:
            return Verdict.invalid(INVALID_PROOF)
        logger.warning("the proof verifier ended with code %d: %s", exit_code, said)
        return Verdict.unknown(VERIFIER_FAILED)

    def _exit_code(self, path: Path, errors: Path) -> tuple[int, str]:
        """The command's exit code and the end of what it wrote to standard error."""
        with errors.open("w+b") as stderr:
            process = subprocess.Popen(
                [*self._command, str(path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )
            try:
                exit_code = process.wait(self._timeout_s)
            except subprocess.TimeoutExpired:
                # The whole session: a script's children must not outlive their turn.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
            stderr.seek(max(0, errors.stat().st_size - _QUOTED_BYTES))
            return exit_code, stderr.read().decode("utf-8", "replace").strip()


def choose_verifier(
    *, real_proofs: bool, command: str | None, processes_max: int = 2, timeout_s: float = 30.0
) -> ProofVerifier:
    """The verifier for a network.  A configured command is used on every network: it was asked for."""
    if command is not None:
        return CommandVerifier(_split(command), processes_max=processes_max, timeout_s=timeout_s)
    return NoVerifier() if real_proofs else ProofsNotVerified()


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise SettingError(f"--proof-verifier-command cannot be read: {error}") from None
    if words and shutil.which(words[0]) is None:
        # Better now than with the first transaction, which would be refused.
        raise SettingError(f"--proof-verifier-command: there is no program {words[0]} that may be run")
    return words
