"""The programs of programs.py, made once, and verifiers over them."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.proofs.programs import real_program, toy_keys, toy_program

from fastnode.proofs.folder import SetupFolder
from fastnode.proofs.program import VerifierProgram
from fastnode.proofs.verifier import BbOptions, BbVerifier
from fastnode.protocol.releases import FOUR

MakeVerifier = Callable[..., BbVerifier]


@pytest.fixture(scope="session")
def bb() -> Path:
    """The unmodified verifier program."""
    return real_program()


@pytest.fixture(scope="session")
def toy_bb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy that takes the recorded proofs for valid."""
    return toy_program(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="session")
def setup_files(bb: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both setup files: the second one takes a second to derive."""
    setup = SetupFolder(tmp_path_factory.mktemp("setup"), FOUR)
    setup.write_generator()
    VerifierProgram(bb, setup.path).derive_setup(FOUR)
    assert setup.has_grumpkin()
    return setup.path


@pytest.fixture
def make_verifier(setup_files: Path, tmp_path: Path) -> Iterator[MakeVerifier]:
    """Verifiers with the test keys, in a working directory of the test; each is closed at its end."""
    made: list[BbVerifier] = []
    working_directory = tmp_path / "proofs"

    def make(program: Path, *, timeout_s: float = 30.0, checks_max: int = 2, prepared: bool = True) -> BbVerifier:
        if not (working_directory / "setup").exists():
            shutil.copytree(setup_files, working_directory / "setup")
        options = BbOptions(
            working_directory=working_directory, binary_path=program, timeout_s=timeout_s, checks_max=checks_max
        )
        keys = toy_keys()
        verifier = BbVerifier(options, tree_root=keys.tree_root, keys=keys)
        made.append(verifier)
        if prepared:
            assert verifier.prepare() is None
        return verifier

    yield make
    for verifier in made:
        verifier.close()


def set_grumpkin(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Bytes that count as the derived setup file in this test: stand-ins derive none."""
    content = b"derived"
    digest = hashlib.sha256(content).hexdigest()
    monkeypatch.setattr("fastnode.proofs.folder.setup_digest", lambda _release: digest)
    return content


def files_left(working_directory: Path) -> list[str]:
    """Files in the folders of checks, but for the keys and the lock."""
    usual = {"lock", "to_rollup.vk", "to_public.vk"}
    return [str(path) for path in working_directory.glob("checks-*/*") if path.name not in usual]
