"""A reset that is killed at any step leaves the old chain or the new one, whole."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fastnode.app.ground.reset_files import is_set_aside, remove_old, set_aside, settle
from fastnode.app.process.reset import arguments_for
from fastnode.local_network.options import Fork

OLD = {"archiver/CURRENT": "old", "world_state/CURRENT": "old", "local_network.json": "old", "tag_filter": "old"}
NEW = {"archiver/CURRENT": "new", "world_state/CURRENT": "new", "p2p/CURRENT": "new"}
COMPLETE = NEW | {"local_network.json": "new"}
KEPT = {"fastnode.lock", "admin/api_key_hash"}


class KilledError(BaseException):
    pass


def write(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text)


def read(directory: Path) -> dict[str, str]:
    """All but what belongs to no chain."""
    found = {str(file.relative_to(directory)): file.read_text() for file in directory.rglob("*") if file.is_file()}
    assert found.keys() >= KEPT
    return {name: text for name, text in found.items() if name not in KEPT}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    write(directory, OLD | {"fastnode.lock": "", "admin/api_key_hash": "hash"})
    return directory


def test_what_was_set_aside_comes_back_unless_the_new_chain_is_complete(directory: Path) -> None:
    set_aside(directory)
    assert is_set_aside(directory)
    write(directory, NEW)
    settle(directory)
    assert read(directory) == OLD
    set_aside(directory)
    write(directory, COMPLETE)
    settle(directory)
    assert read(directory) == COMPLETE
    settle(directory)
    assert read(directory) == COMPLETE


def test_another_reset_before_the_first_is_tidied_up_keeps_its_own_chain(directory: Path) -> None:
    set_aside(directory)
    write(directory, COMPLETE)
    set_aside(directory)
    settle(directory)
    assert read(directory) == COMPLETE
    set_aside(directory)
    remove_old(directory)
    assert read(directory) == {}


@pytest.mark.parametrize("seed", range(40))
def test_a_kill_at_any_step_leaves_one_chain_whole(directory: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often the process is killed, also while the start after it settles."""
    dice = random.Random(seed)
    steps_left = 0

    def steps(kind: type, name: str) -> None:
        original = getattr(kind, name)

        def step(*arguments: object, **more: object) -> object:
            nonlocal steps_left
            steps_left -= 1
            if steps_left < 0:
                raise KilledError
            return original(*arguments, **more)

        monkeypatch.setattr(kind, name, step)

    for name in ("rename", "unlink", "mkdir", "rmdir"):
        steps(Path, name)
    monkeypatch.setattr(
        "fastnode.app.ground.reset_files.shutil.rmtree", lambda path, ignore_errors=False: remove_in_steps(path, dice)
    )

    def attempt(work: object) -> bool:
        nonlocal steps_left
        steps_left = dice.randrange(14)
        try:
            work(directory)  # type: ignore[operator]
        except KilledError:
            return False
        finally:
            steps_left = 1 << 30
        return True

    is_new = False
    if attempt(set_aside):
        new = dict(dice.sample(sorted(COMPLETE.items()), dice.randrange(len(NEW)))) if dice.random() < 0.5 else COMPLETE
        new = COMPLETE if new is COMPLETE else {name: text for name, text in new.items() if name in NEW}
        write(directory, new)
        is_new = new is COMPLETE
    while not attempt(settle):
        pass
    assert read(directory) == (COMPLETE if is_new else OLD)


def remove_in_steps(path: Path, dice: random.Random) -> None:
    """As ``rmtree``, file by file in any order, so that it can be killed in between."""
    for file in dice.sample(sorted(path.rglob("*"), reverse=True), len(list(path.rglob("*")))):
        if file.is_file():
            file.unlink()
    for folder in sorted((file for file in path.rglob("*") if file.is_dir()), reverse=True):
        folder.rmdir()
    path.rmdir()


def test_a_later_reset_may_copy_from_what_the_process_began_with() -> None:
    began = ["start", "--local-network", "--fork-from=a", "--ready-fd", "7"]
    assert arguments_for(began, ["--port=1"], None, Fork("b", 4), ("a", "b")) == [
        *("start", "--local-network", "--fork-from=a", "--port=1"),
        *("--fork-from=b", "--fork-sources=a,b", "--fork-block-number=4"),
    ]
