"""The operator's own verifier: any program, in place of the network's.

It is run with the path of a file that holds the transaction's binary form (protocol/tx.py).  Exit code 0 means that the
proof holds, 1 that it does not; any other end, or none in time, leaves the proof unknown.  So does 1 where the last
words are those of a crash: interpreters end with it.
"""

from __future__ import annotations

import logging
import re
import shlex
import shutil
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from fastnode.errors import SettingError
from fastnode.proofs.program import FAILED, INVALID_PROOF, TOO_SLOW
from fastnode.proofs.queue import VERIFIER_BUSY
from fastnode.proofs.run import ProgramTimeout, run_program
from fastnode.proofs.verdict import VALID, Verdict
from fastnode.protocol.tx import Tx

__all__ = ["CommandVerifier", "command_words"]

logger = logging.getLogger(__name__)

EXIT_VALID: Final = 0
EXIT_INVALID: Final = 1

#: Last words of interpreters and runtimes whose program has crashed.
_CRASHES: Final = re.compile(
    r"Traceback \(most recent call last\)|panicked at|Uncaught |UnhandledPromiseRejection|node:internal/|"
    r"terminate called|Segmentation fault|core dumped|command not found|Exception in thread"
)
#: Bytes of a failing command's last words in the log.
_QUOTED_CHARACTERS: Final = 500


def command_words(text: str, flag: str) -> list[str]:
    """Words of a command, as a shell splits them; SettingError if there is no such program: better at the start than
    when it is needed."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise SettingError(f"{flag} cannot be read: {error}") from None
    if not words:
        raise SettingError(f"{flag}: the command is empty")
    if shutil.which(words[0]) is None:
        raise SettingError(f"{flag}: there is no program {words[0]} that may be run")
    return words


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

    @classmethod
    def of_text(cls, text: str, *, processes_max: int = 2, timeout_s: float = 30.0) -> Self:
        """From words as a shell splits them; SettingError if there is no such program."""
        return cls(command_words(text, "--proof-verifier-command"), processes_max=processes_max, timeout_s=timeout_s)

    def judge(self, tx: Tx, client: str = "") -> Verdict:
        del client  # turns are taken in the order of asking
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
                ended = run_program([*self._command, str(path)], timeout_s=self._timeout_s)
        except ProgramTimeout:
            logger.warning("the proof verifier did not end within %s s", self._timeout_s)
            return Verdict.unknown(TOO_SLOW)
        except OSError as error:
            logger.warning("the proof verifier cannot be run: %s", error)
            return Verdict.unknown(FAILED)
        if ended.code == EXIT_VALID:
            return VALID
        if ended.code == EXIT_INVALID and _CRASHES.search(ended.said) is None:
            return Verdict.invalid(INVALID_PROOF)
        logger.warning("the proof verifier ended with code %d: %s", ended.code, ended.said[-_QUOTED_CHARACTERS:])
        return Verdict.unknown(FAILED)
