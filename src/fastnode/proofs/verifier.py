"""Judging proofs with the network's own verifier program.

    judge(tx) ─► canonical? ─► verdict kept? ─► queue, fair by client ─► one process ─► valid, invalid, unknown

A verifier is opened at once and made ready in the background: keys tied to the network, program of their release,
setup files written and derived, one refusal tried.  Until then, and when any of it fails, proofs are unknown, with the
reason as its ``limitation``; after a failure it is made ready anew when a proof comes, or somebody asks how it is, and
a minute has passed: an operator who puts the program in its place need not restart the node, and a node that takes no
transactions, so gets no proof, is not left that way by one bad moment.
"""

from __future__ import annotations

import enum
import logging
import os
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Final

from fastnode.errors import DecodeError
from fastnode.proofs.folder import CheckFolder, SetupFolder
from fastnode.proofs.inputs import Circuit, Statement, input_fields
from fastnode.proofs.keys import VerificationKeys
from fastnode.proofs.program import INVALID_PROOF, CannotRun, VerifierProgram
from fastnode.proofs.queue import CheckQueue, answered
from fastnode.proofs.verdict import VALID, Judgement, Verdict
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.protocol.releases import FOUR, Release, known
from fastnode.protocol.tx import Tx
from fastnode.records import dataclass

__all__ = ["BbOptions", "BbVerifier", "VerifierState", "find_program"]

logger = logging.getLogger(__name__)

NOT_READY: Final = "the proof verifier is being set up"
SETUP_CHANGED: Final = "its setup files were changed or removed from outside"
OTHER_KEYS: Final = "this network's transactions are of another release than the keys that come with the node"

#: Folder of `fastnode proofs install` for the program, in the working directory.
INSTALLED: Final = Path("program", "bb")
#: Verdicts that are kept: a digest each.
VERDICTS_KEPT_MAX: Final = 10_000
#: Time from a failure to the next try.
RETRY_S: Final = 60.0


class VerifierState(enum.Enum):
    PREPARING = "preparing"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BbOptions:
    """``working_directory``: the private folder (folder.py).  ``checks_max`` at once, ``threads`` of each."""

    working_directory: Path
    binary_path: Path | None = None
    checks_max: int = 0
    threads: int = 1
    timeout_s: float = 30.0

    @property
    def checks_at_once(self) -> int:
        """As many as there are cores, unless it is said."""
        if self.checks_max:
            return self.checks_max
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def find_program(options: BbOptions) -> Path | None:
    """The program that was named, or the one that was installed."""
    if options.binary_path is not None:
        return options.binary_path
    installed = options.working_directory / INSTALLED
    return installed if installed.exists() else None


class BbVerifier:
    """Judges proofs with ``bb``.  Usable from any thread; ``close`` ends what runs and empties the folder."""

    def __init__(
        self,
        options: BbOptions,
        *,
        tree_root: bytes | None,
        keys: VerificationKeys | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``tree_root``: of the network's verification keys; None: not known.  ``keys`` in place of those shipped."""
        self.options = options
        #: Level of the line of the log that says why no proof can be judged.
        self.failure_level = logging.ERROR
        self._tree_root = tree_root
        self._given_keys = keys
        self._clock = clock
        self._state = VerifierState.PREPARING
        self._failure: str | None = None
        self._failed_at = 0.0
        self._changing = threading.Lock()
        self._ready: _Ready | None = None
        self._preparing: threading.Thread | None = None
        self._queue = CheckQueue(self._check, threads=options.checks_at_once, timeout_s=options.timeout_s)
        self._kept: OrderedDict[bytes, Verdict] = OrderedDict()
        self._is_closed = False
        #: Checks that ended, by verdict, and the seconds that they took.
        self.checks: Counter[Judgement] = Counter()
        self.check_seconds = 0.0
        #: Proofs whose verdict was kept from before.
        self.kept_hits = 0
        #: The reason of the last proof that could not be judged by a verifier that was ready.
        self.last_trouble: str | None = None

    # ---- how it is -----------------------------------------------------------------------

    @property
    def state(self) -> VerifierState:
        return self._state

    @property
    def limitation(self) -> str | None:
        """Reason why no proof can be judged now, as a sentence; None if proofs are judged."""
        if self._state is VerifierState.READY:
            return None
        return f"Proof cannot be verified: {self._failure or NOT_READY}"

    @property
    def has_failed(self) -> bool:
        """True from a failure until it is ready, also while it is made ready anew."""
        return self._failure is not None

    @property
    def waiting_count(self) -> int:
        return self._queue.waiting_count

    @property
    def running_count(self) -> int:
        return self._queue.running_count

    @property
    def turned_away_count(self) -> int:
        return self._queue.turned_away

    # ---- making ready --------------------------------------------------------------------

    def use_network(self, tree_root: bytes | None) -> None:
        """The network's root of verification keys has become known, or another: made ready anew if it differs."""
        with self._changing:
            if tree_root == self._tree_root:
                return
            self._tree_root, self._failure = tree_root, None
            was_ready, self._ready = self._ready, None
            begun = self._preparing is not None or self._state is not VerifierState.PREPARING
            self._state = VerifierState.PREPARING
        if was_ready is not None:
            was_ready.folder.close()
        if begun:
            self.start()

    def start(self) -> None:
        """Begin to make it ready, in a thread of its own."""
        with self._changing:
            if self._is_closed or self._preparing is not None or self._state is VerifierState.READY:
                return
            self._state = VerifierState.PREPARING
            self._preparing = threading.Thread(target=self.prepare, name="proof-setup", daemon=True)
            self._preparing.start()

    def prepare(self) -> str | None:
        """Make it ready now; why that failed, or None.  Takes a second of one core the first time."""
        started = self._clock()
        while True:
            tree_root = self._tree_root
            try:
                ready = _make_ready(self.options, tree_root, self._given_keys)
            except (CannotRun, OSError, ValueError) as error:
                if tree_root != self._tree_root:
                    continue
                self._fail(str(error))
                return str(error)
            with self._changing:
                if tree_root == self._tree_root and not self._is_closed:
                    self._preparing = None
                    self._ready, self._failure, self._state = ready, None, VerifierState.READY
                    break
            ready.folder.close()
            if self._is_closed:
                return None
        logger.info("proofs are verified by %s, ready after %.1f s", ready.program.path, self._clock() - started)
        return None

    def _fail(self, reason: str) -> None:
        with self._changing:
            is_news = reason != self._failure
            self._preparing = None
            self._failure, self._failed_at, self._state = reason, self._clock(), VerifierState.FAILED
            ready, self._ready = self._ready, None
        if ready is not None:
            ready.folder.close()
        if is_news:
            logger.log(self.failure_level, "proofs cannot be verified: %s", reason)

    def start_if_due(self) -> None:
        """Begin to make it ready unless it is, or is about to be, or has failed within the last minute."""
        state = self._state
        if state is VerifierState.PREPARING or (
            state is VerifierState.FAILED and self._clock() - self._failed_at >= RETRY_S
        ):
            self.start()

    def wait_until_prepared(self, timeout_s: float) -> None:
        """Until it is ready or has failed, or the time is over."""
        preparing = self._preparing
        if preparing is not None and preparing is not threading.current_thread():
            preparing.join(timeout_s)

    # ---- judging -------------------------------------------------------------------------

    def judge(self, tx: Tx, client: str = "") -> Verdict:
        """Waits for the verdict.  ``client``: for whom, so that each has its turn; empty for the node itself."""
        return self.submit(tx, client).result()

    def submit(self, tx: Tx, client: str = "") -> Future[Verdict]:
        """Never blocks for long: the verdict comes when the proof has been checked."""
        statement = Statement.of_tx(tx)
        return self.submit_statement(statement, client)

    def submit_statement(self, statement: Statement, client: str = "") -> Future[Verdict]:
        """The verdict on circuit, inputs and proof, to come."""
        if (flaw := statement.flaw(_release_of(self._tree_root))) is not None:
            logger.debug("a proof was refused unread: %s", flaw)
            self.checks[Judgement.INVALID] += 1
            self._queue.suspect(client)
            return answered(Verdict.invalid(INVALID_PROOF))
        digest = statement.digest
        kept = self._kept.get(digest)
        if kept is not None:
            self.kept_hits += 1
            if kept.judgement is Judgement.INVALID:
                self._queue.suspect(client)
            return answered(kept)
        self.start_if_due()
        if self._state is VerifierState.FAILED:
            return answered(self._unknown())
        return self._queue.submit(statement, digest, client)

    def _unknown(self) -> Verdict:
        self.checks[Judgement.UNKNOWN] += 1
        return Verdict.unknown(self.limitation or f"Proof cannot be verified: {NOT_READY}")

    def _check(self, statement: Statement) -> Verdict:
        """One statement, in a thread of the queue; raises nothing."""
        self.wait_until_prepared(self.options.timeout_s)
        ready = self._ready
        if ready is None:
            return self._unknown()
        if not ready.setup.is_untouched():
            # It would refuse every proof.
            self._fail(SETUP_CHANGED)
            self._failed_at -= RETRY_S
            return self._unknown()
        started = self._clock()
        try:
            with ready.folder.proof_file(statement.whole(_release_of(self._tree_root))) as path:
                verdict = ready.program.check(path, ready.folder.key_path(statement.circuit))
        except DecodeError as error:
            logger.debug("a compressed proof was refused: %s", error)
            verdict = Verdict.invalid(INVALID_PROOF)
        except OSError as error:
            logger.warning("a proof could not be written for the verifier: %s", error)
            verdict = Verdict.unknown(f"Proof cannot be verified: {error.strerror or error}")
        return self._record(statement, verdict, self._clock() - started)

    def _record(self, statement: Statement, verdict: Verdict, seconds: float) -> Verdict:
        self.checks[verdict.judgement] += 1
        self.check_seconds += seconds
        if verdict.judgement is Judgement.UNKNOWN:
            self.last_trouble = verdict.reason
        else:
            self.last_trouble = None
            self._keep(statement.digest, verdict)
        return verdict

    def _keep(self, digest: bytes, verdict: Verdict) -> None:
        with self._changing:
            self._kept[digest] = verdict
            if len(self._kept) > VERDICTS_KEPT_MAX:
                self._kept.popitem(last=False)

    def close(self) -> None:
        """Waits for the checks that run, at most as long as one may take; those that wait are not judged."""
        with self._changing:
            self._is_closed = True
            preparing = self._preparing
        self._queue.close()
        if preparing is not None:
            preparing.join()
        with self._changing:
            ready, self._ready = self._ready, None
        if ready is not None:
            ready.folder.close()


# ---- making ready -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ready:
    program: VerifierProgram
    setup: SetupFolder
    folder: CheckFolder


def _release_of(tree_root: bytes | None) -> Release:
    """The release whose keys have this root; where there is none, the first: what does not fit is said by its name."""
    return next((release for release in known() if release.vk_tree_root == tree_root), FOUR)


def _make_ready(options: BbOptions, tree_root: bytes | None, given_keys: VerificationKeys | None) -> _Ready:
    """CannotRun, OSError or ValueError: a sentence for the operator."""
    release = _release_of(tree_root)
    keys = given_keys or VerificationKeys.of_release(release)
    if tree_root != keys.tree_root:
        named = "unknown" if tree_root is None else f"0x{tree_root.hex()}"
        raise CannotRun(f"{OTHER_KEYS} ({' or '.join(keys.programs)}): its root of verification keys is {named}")
    path = find_program(options)
    if path is None:
        raise CannotRun("there is no verifier program (fastnode proofs install, --bb-binary-path)")
    setup = SetupFolder(options.working_directory / "setup", release)
    program = VerifierProgram(
        path.absolute(), setup.path.absolute(), threads=options.threads, timeout_s=options.timeout_s
    )
    setup.write_generator()
    version = program.version()
    if version not in keys.programs:
        wanted = " or ".join(keys.programs) or f"none that is known for {keys.release}"
        raise CannotRun(f"{path} is of release {version or 'unknown'}, the keys are of {wanted}")
    if not setup.has_grumpkin():
        program.derive_setup(release)
        if not setup.has_grumpkin():
            raise CannotRun(f"{path} did not derive the setup file {setup.derived} in {setup.path}")
    setup.remember()
    folder = CheckFolder(options.working_directory.absolute(), keys)
    try:
        _try_refusal(program, folder, release)
    except BaseException:
        folder.close()
        raise
    return _Ready(program, setup, folder)


def _try_refusal(program: VerifierProgram, folder: CheckFolder, release: Release) -> None:
    """A proof of zeros must be refused: the program runs, reads what it is given, and says no when it should."""
    inputs = bytes(input_fields(Circuit.TO_ROLLUP, release) * FIELD_BYTES)
    zeros = Statement(Circuit.TO_ROLLUP, inputs, bytes(release.proof_fields * FIELD_BYTES))
    with folder.proof_file(zeros) as path:
        verdict = program.check(path, folder.key_path(zeros.circuit))
    if verdict == VALID:
        raise CannotRun(f"{program.path} accepts a proof of zeros: it is no verifier")
    if verdict.judgement is Judgement.UNKNOWN:
        raise CannotRun(f"{program.path} fails on a first proof: {verdict.reason}")
