"""The settings of the verifier of proofs."""

from __future__ import annotations

from pathlib import Path

from fastnode.config import needs
from fastnode.config.table import PROOFS, START, setting
from fastnode.records import dataclass
from fastnode.values.numbers import Integer, Seconds
from fastnode.values.texts import FilePath, Text

__all__ = ["ProofSettings"]

TRANSACTIONS = "Transactions"


@dataclass(frozen=True, kw_only=True)
class ProofSettings:
    bb_binary_path: Path | None = setting(
        None,
        FilePath(metavar="PATH"),
        TRANSACTIONS,
        "The network's verifier program, bb; not set: where `fastnode proofs install` puts it.",
        needs=needs.BB_VERIFIER,
        commands=(START, PROOFS),
        environment=("BB_BINARY_PATH",),
    )
    bb_working_directory: Path | None = setting(
        None,
        FilePath(metavar="DIRECTORY"),
        TRANSACTIONS,
        "Where the verifier has setup files and proofs; default: proofs in the data directory.",
        commands=(START, PROOFS),
        environment=("BB_WORKING_DIRECTORY",),
    )
    bb_num_ivc_verifiers: int = setting(
        0,
        Integer(0, 1024),
        TRANSACTIONS,
        "Most proofs that are checked at once; 0: as many as there are cores.",
        needs=needs.BB_VERIFIER,
        commands=(START, PROOFS),
        environment=("BB_NUM_IVC_VERIFIERS",),
    )
    bb_ivc_concurrency: int = setting(
        1,
        Integer(1, 1024),
        TRANSACTIONS,
        "Threads of one check.",
        needs=needs.BB_VERIFIER,
        commands=(START, PROOFS),
        environment=("BB_IVC_CONCURRENCY",),
    )
    proof_verifier_command: str | None = setting(
        None,
        Text(metavar="COMMAND"),
        TRANSACTIONS,
        "Program that checks proofs in place of bb: it gets a file with the transaction's binary form and exits with "
        "0 (valid) or 1 (invalid); all else: unknown.",
    )
    proof_verifier_processes: int = setting(
        2,
        Integer(1, 1024),
        TRANSACTIONS,
        "Most runs of --proof-verifier-command at a time.",
        needs=needs.COMMAND_VERIFIER,
    )
    proof_verifier_timeout_s: float = setting(
        30.0,
        Seconds(0.1, 3600),
        TRANSACTIONS,
        "How long one check of a proof may take, and wait for its turn.",
        commands=(START, PROOFS),
    )
