"""The verifier program of a release, ``bb``: what it is asked, and what its answers mean.

One process for each check::

    bb verify --scheme chonk -p PROOF_FILE -k KEY_FILE
    exit 0: valid.  exit 1: refused, or failed; its last words tell which.  Anything else: it crashed or was killed

It also exits with 1 when it could not read its setup or had no memory.  So only what it is known to say of a false
proof is a refusal; all else means that nothing is known of the proof.
"""

from __future__ import annotations

import logging
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fastnode.proofs.run import Ended, ProgramTimeout, run_program
from fastnode.proofs.verdict import VALID, Verdict
from fastnode.protocol.releases import Release

__all__ = ["INVALID_PROOF", "CannotRun", "VerifierProgram", "explain_start_failure"]

logger = logging.getLogger(__name__)

#: Message to a client with a false proof, in the reference's words.
INVALID_PROOF: Final = "Invalid proof"
FAILED: Final = "Proof cannot be verified: the proof verifier failed"
TOO_SLOW: Final = "Proof cannot be verified: the proof verifier did not end in time"

EXIT_VALID: Final = 0
EXIT_REFUSED: Final = 1

#: Words of the program for a proof that does not hold, or is not even the encoding of one.
_REFUSALS: Final = re.compile(
    r"verification failed at|Assertion failed:|Cannot aggregate: incoming pairing points are at infinity|"
    r"(?:proof|verification key) has wrong size:"
)
#: Errors of the program itself, in any text around them.
_TROUBLES: Final = re.compile(
    r"HTTP request failed|bad_alloc|[Cc]annot allocate|No space left|Unable to open file|Failed to (?:open|read|lock)|"
    r"Permission denied|No such file|\bCRS\b.*(?:not found|missing|fail)|"
    r"g1 data (?:not found|had)"
)

#: Variables of the node's environment that the program may see: what finds it, or a wrapper's interpreter.
_PASSED_ON: Final = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")

#: Much more than it takes: it runs below the node's priority, which on a busy machine is nearly nothing.
_VERSION_TIMEOUT_S: Final = 60.0
_DERIVE_TIMEOUT_S: Final = 120.0


class CannotRun(Exception):  # noqa: N818 - a sentence for the operator
    """The program is missing, cannot be started here, or is of another release; the message says what to do."""


class VerifierProgram:
    """``bb`` at a path.  Usable from several threads: each call is a process of its own."""

    def __init__(self, path: Path, setup: Path, *, threads: int = 1, timeout_s: float = 30.0) -> None:
        """``setup``: the folder of the setup files.  ``threads``: of one check.  ``timeout_s``: for one check."""
        self.path = path
        self._timeout_s = timeout_s
        self._environment = _environment(setup, threads)

    def version(self) -> str:
        """The program's own name and version.  CannotRun."""
        ended = self._run_or_explain("--version", timeout_s=_VERSION_TIMEOUT_S)
        return ended.said.splitlines()[-1].strip() if ended.said else ""

    def derive_setup(self, release: Release) -> None:
        """Let it, a program of the release, derive its second setup file, which takes a second of one core.  CannotRun.

        It does so for the smallest circuit that needs the file; what it answers does not matter.
        """
        self._run_or_explain("msgpack", "run", timeout_s=_DERIVE_TIMEOUT_S, stdin=_request(release))

    def _run_or_explain(self, *arguments: str, timeout_s: float, stdin: bytes = b"") -> Ended:
        try:
            ended = run_program(
                [str(self.path), *arguments], timeout_s=timeout_s, environment=self._environment, stdin=stdin
            )
        except ProgramTimeout:
            raise CannotRun(f"{self.path} {' '.join(arguments)} does not end within {timeout_s:g} s") from None
        except OSError as error:
            raise CannotRun(explain_start_failure(self.path, str(error))) from None
        if ended.code != 0:
            raise CannotRun(explain_start_failure(self.path, ended.said or f"it ended with code {ended.code}"))
        return ended

    def check(self, proof: Path, key: Path) -> Verdict:
        """The verdict on a file of public inputs and proof, with a key.  Blocks; raises nothing."""
        command = [str(self.path), "verify", "--scheme", "chonk", "-p", str(proof), "-k", str(key)]
        try:
            ended = run_program(command, timeout_s=self._timeout_s, environment=self._environment)
        except ProgramTimeout:
            logger.warning("the proof verifier did not end within %g s", self._timeout_s)
            return Verdict.unknown(TOO_SLOW)
        except OSError as error:
            logger.warning("the proof verifier cannot be run: %s", error)
            return Verdict.unknown(FAILED)
        return _verdict(ended)


def _verdict(ended: Ended) -> Verdict:
    if ended.code == EXIT_VALID:
        return VALID
    if ended.code == EXIT_REFUSED and _REFUSALS.search(ended.said) and not _TROUBLES.search(ended.said):
        return Verdict.invalid(INVALID_PROOF)
    logger.warning("the proof verifier ended with code %d: %s", ended.code, ended.said[-500:])
    return Verdict.unknown(FAILED)


def _environment(setup: Path, threads: int) -> Mapping[str, str]:
    """None of the node's secrets, and no other place to look for setup files."""
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return passed_on | {"CRS_PATH": str(setup), "HOME": str(setup), "HARDWARE_CONCURRENCY": str(threads)}


def explain_start_failure(path: Path, said: str) -> str:
    """One sentence for an operator, from what the system or the loader said."""
    if "GLIBC" in said or "GLIBCXX" in said:
        missing = ", ".join(sorted(set(re.findall(r"GLIBC(?:XX)?_[0-9.]+", said))))
        return (
            f"{path} needs newer system libraries ({missing}) than this system has: use Debian 13, Ubuntu 24.04 or "
            "newer, or give it a newer loader with `fastnode proofs install --libraries`"
        )
    if "Exec format error" in said:
        return f"{path} is no program for this machine ({platform.system()} {platform.machine()})"
    if "No such file" in said and path.exists():
        return f"{path} needs a loader that this system does not have: {said}"
    if "No such file" in said:
        return f"{path} does not exist"
    if "Permission denied" in said:
        return f"{path} may not be executed by this user"
    return f"{path} cannot be run: {' '.join(said.split())[:300]}"


# ---- the smallest circuit ---------------------------------------------------------------------


def _text(text: str) -> bytes:
    return bytes([0xA0 | len(text)]) + text.encode("ascii")


def _binary(content: bytes) -> bytes:
    return b"\xc4" + bytes([len(content)]) + content


def _map(**entries: bytes) -> bytes:
    return bytes([0x80 | len(entries)]) + b"".join(_text(name) + value for name, value in entries.items())


def _array(*items: bytes) -> bytes:
    return bytes([0x90 | len(items)]) + b"".join(items)


def _request(release: Release) -> bytes:
    """Ask for the size of a circuit without gates that takes part in aggregation: a length, and MessagePack."""
    nothing, false, true = _array(), b"\xc2", b"\xc3"
    index = (b"\x00",) if release.circuits["setup"]["witnessIndex"] else ()
    function = _array(_text("main"), *index, nothing, nothing, nothing, nothing, nothing)
    bytecode = b"\x03" + _array(_array(function), nothing)  # 3: the compact form
    settings = _map(
        ipa_accumulation=true,
        oracle_hash_type=_text("poseidon2"),
        disable_zk=false,
        optimized_solidity_verifier=false,
    )
    circuit = _map(name=_text("main"), bytecode=_binary(bytecode), verification_key=_binary(b""))
    body = _map(circuit=circuit, include_gates_per_opcode=false, settings=settings)
    message = _array(_array(_text("CircuitStats"), body))
    return len(message).to_bytes(4, "little") + message
