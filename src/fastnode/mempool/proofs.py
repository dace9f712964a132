"""Checking a transaction's proof: pluggable, because fastnode brings no prover of its own.

* A network without real proofs (node info: ``realProofs`` false) accepts any proof; nothing is verified
  and nothing claims to be.
* On other networks an operator names a command.  It is run with the path of a file that holds the
  transaction's binary form (tx.py); exit code 0 means the proof holds, 1 that it does not.  Any other
  end, or none in time, means that nothing is known: the transaction is refused with that reason.
* Without a command such a network's transactions are refused.
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
from typing import Final, Protocol

from fastnode.errors import SettingError
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


class ProofVerifier(Protocol):
    """Says why a proof is not accepted.  May block; called from worker threads."""

    def refusal(self, tx: Tx) -> str | None:
        """The reason to refuse the transaction, or None."""


class ProofsNotVerified:
    """For networks without real proofs: whatever stands in the proof is not looked at."""

    def refusal(self, _tx: Tx) -> str | None:
        return None


class NoVerifier:
    """For networks with real proofs when no command is configured."""

    def refusal(self, _tx: Tx) -> str | None:
        return NO_VERIFIER


class CommandVerifier:
    """Runs an external command per transaction, at most ``processes_max`` at a time, ``timeout_s`` each.

    A caller waits at most ``timeout_s`` for its turn.
    """

    def __init__(self, command: Sequence[str], *, processes_max: int = 2, timeout_s: float = 30.0) -> None:
        if not command:
            raise SettingError("the proof verifier command is empty")
        self._command = tuple(command)
        self._timeout_s = timeout_s
        self._turns = threading.BoundedSemaphore(processes_max)

    def refusal(self, tx: Tx) -> str | None:
        if not self._turns.acquire(timeout=self._timeout_s):
            return VERIFIER_BUSY
        try:
            return self._run(tx)
        finally:
            self._turns.release()

    def _run(self, tx: Tx) -> str | None:
        try:
            with tempfile.TemporaryDirectory(prefix="fastnode-proof-") as directory:
                path = Path(directory) / "tx.bin"
                path.write_bytes(tx.to_buffer())
                exit_code, said = self._exit_code(path, Path(directory) / "stderr")
        except subprocess.TimeoutExpired:
            logger.warning("the proof verifier did not end within %s s", self._timeout_s)
            return VERIFIER_FAILED
        except OSError as error:
            logger.warning("the proof verifier cannot be run: %s", error)
            return VERIFIER_FAILED
        if exit_code == EXIT_VALID:
            return None
        if exit_code == EXIT_INVALID:
            return INVALID_PROOF
        logger.warning("the proof verifier ended with code %d: %s", exit_code, said)
        return VERIFIER_FAILED

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
