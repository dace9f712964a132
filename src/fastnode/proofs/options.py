"""The settings of the verifier, as it takes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastnode.proofs.judge import ProofJudge, open_judge
from fastnode.proofs.verifier import BbOptions

if TYPE_CHECKING:
    from fastnode.config.settings import Settings

__all__ = ["PROOFS_DIRECTORY", "bb_options", "checks_at_once", "judge_of"]

#: In the data directory, unless --bb-working-directory names another one.
PROOFS_DIRECTORY: Final = "proofs"


def bb_options(settings: Settings, data_directory: Path | None) -> BbOptions:
    """One of the two directories must be known."""
    working_directory = settings.bb_working_directory
    if working_directory is None:
        assert data_directory is not None
        working_directory = data_directory / PROOFS_DIRECTORY
    return BbOptions(
        working_directory=working_directory,
        binary_path=settings.bb_binary_path,
        checks_max=settings.bb_num_ivc_verifiers,
        threads=settings.bb_ivc_concurrency,
        timeout_s=settings.proof_verifier_timeout_s,
    )


def checks_at_once(settings: Settings) -> int:
    """Number of proofs that are checked at a time."""
    return BbOptions(working_directory=Path(), checks_max=settings.bb_num_ivc_verifiers).checks_at_once


def judge_of(settings: Settings, data_directory: Path, *, required: bool) -> ProofJudge:
    """The judge of a node; ``required``: the network's proofs are real.  SettingError for a command that cannot run."""
    return open_judge(
        required=required,
        command=settings.proof_verifier_command,
        processes_max=settings.proof_verifier_processes,
        timeout_s=settings.proof_verifier_timeout_s,
        bb=bb_options(settings, data_directory),
    )
