"""Random damage to the files of a data directory in all forms that its content has: never a wrong answer.

Bits that are flipped, pages of zeros, files that are cut, gone or another database's; in directories that were closed,
or killed with the newest blocks in a log.  Whatever is asked of them then is answered as before, or refused in words
that name the database and what to do.  A few damages are tried always, hundreds with FASTNODE_LONG=1; FASTNODE_SEED=N
tries other ones.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from tests.conftest import PATIENCE_S
from tests.power_cut.life import BLOCKS_KEPT, HISTORY_CHECKPOINTS, age, options
from tests.power_cut.truth import PARTING, Truth

from fastnode.archiver.ingest import Ingestor
from fastnode.chain_data import ChainData
from fastnode.data_check import check_data
from fastnode.errors import FastnodeError
from fastnode.protocol.tips import L2Tips
from fastnode.sources.chain_import import adopt_chain_file
from fastnode.storage.seal import SEAL_FILE

DAMAGES: Final = 200 if os.environ.get("FASTNODE_LONG") == "1" else 4
SEED: Final = int(os.environ.get("FASTNODE_SEED", "41"))
LOOKS: Final = 6
PAGE_BYTES: Final = 4096
DATABASES: Final = ("archiver", "world_state")
#: Words of advice, one of which every refusal has.
ADVICE: Final = ("restore", "remove the folder", "import", "db check")

FORMS: Final = ("thin", "half packed", "pruned")


@pytest.fixture(scope="module")
def directories(truth: Truth, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A data directory of each form, as a kill leaves it."""
    folder = tmp_path_factory.mktemp("forms")
    return {form: _made(truth, folder / form, form) for form in FORMS}


def _made(truth: Truth, folder: Path, form: str) -> Path:
    first, rest = truth.forks[0].checkpoints[: PARTING - 1], truth.forks[0].checkpoints[PARTING - 1 :]
    closed = folder / "closed"
    with ChainData.open(closed) as data:
        adopt_chain_file(data.store, truth.files[0])
        ingestor = data.open_ingestor(verify=False)
        for record in first:
            ingestor.apply(record)
    if form == "half packed":
        age(closed)
    history = HISTORY_CHECKPOINTS if form == "pruned" else 0
    with ChainData.open(closed, options=options(history=history)) as data:
        ingestor = data.open_ingestor(verify=False)
        ingestor.catch_up()
        for record in rest[:-3]:
            ingestor.apply(record)
        _finalize(ingestor)
        with ingestor.between_blocks():
            if form == "thin":
                while data.state.thin():
                    pass
            elif form == "pruned":
                while data.state.prune() or ingestor.prune_bodies(BLOCKS_KEPT):
                    pass
            else:
                assert ingestor.pack_texts()
        data.store.database.compact()
        data.state.database.compact()
        for record in rest[-3:]:
            ingestor.apply(record)
        copy_of_open(closed, folder / "killed")
    return folder / "killed"


def copy_of_open(directory: Path, target: Path) -> None:
    """As a kill would leave it; once more where a merge of tables has come between."""
    copied: dict[Path, int] = {}
    while copied != (sizes := sizes_of(directory)):
        shutil.rmtree(target, ignore_errors=True)
        with contextlib.suppress(shutil.Error):  # a file has gone
            shutil.copytree(directory, target, ignore=shutil.ignore_patterns("LOCK", "fastnode.lock"))
        copied = sizes


def sizes_of(directory: Path) -> dict[Path, int]:
    found = {}
    for file in sorted(directory.rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            found[file] = file.stat().st_size if file.is_file() else 0
    return found


def _finalize(ingestor: Ingestor) -> None:
    tips = ingestor.view.tips
    tip = ingestor.view.tip_of_checkpoint(tips.checkpointed.checkpoint.number - 4)
    ingestor.set_tips(L2Tips(tips.proposed, tips.checkpointed, tip, tip))


# ---- kinds of damage ------------------------------------------------------------------------------------


def flip(content: bytearray, dice: random.Random) -> bytes:
    for _ in range(dice.choice([1, 1, 20])):
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    return bytes(content)


def rot(content: bytearray, dice: random.Random) -> bytes:
    """Spare the end, where a table has its index: without that nothing of the rest would be read."""
    for _ in range(1 + len(content) // PAGE_BYTES):
        content[dice.randrange(len(content) * 4 // 5 + 1)] ^= 1 << dice.randrange(8)
    return bytes(content)


def cut(content: bytearray, dice: random.Random) -> bytes:
    return bytes(content[: dice.randrange(len(content))])


def clear(content: bytearray, dice: random.Random) -> bytes:
    """A page of zeros."""
    page = dice.randrange(0, len(content), PAGE_BYTES)
    length = min(PAGE_BYTES, len(content) - page)
    content[page : page + length] = bytes(length)
    return bytes(content)


def damage(directory: Path, dice: random.Random) -> str:
    """Change one of the files, or two that take each other's place; says what was done."""
    files = sorted(
        file for name in DATABASES for file in (directory / name).iterdir() if file.name not in ("LOG", "LOG.old")
    )
    files = [file for file in files if file.stat().st_size]
    file = dice.choice(files)
    kind: str | Callable[[bytearray, random.Random], bytes] = dice.choice(
        [flip, flip, rot, rot, cut, clear, "gone", "swapped"]
    )
    name = file.relative_to(directory)
    if kind == "gone":
        file.unlink()
        return f"{name} gone"
    if kind == "swapped":
        others = [one for one in files if one != file and one.name[-4:] == file.name[-4:]]
        if others:
            other = dice.choice(others)
            one, two = file.read_bytes(), other.read_bytes()
            file.write_bytes(two)
            other.write_bytes(one)
            return f"{name} and {other.relative_to(directory)} swapped"
        kind = flip
    assert callable(kind)
    file.write_bytes(kind(bytearray(file.read_bytes()), dice))
    return f"{name}: {kind.__name__}"


# ---- what comes of it -----------------------------------------------------------------------------------


def require_refusal(error: FastnodeError, directory: Path) -> None:
    text = str(error)
    assert any(str(directory / name) in text for name in DATABASES), f"names no database: {text}"
    assert any(word in text for word in ADVICE), f"says not what to do: {text}"


@pytest.mark.parametrize("form", FORMS)
def test_no_damage_of_any_form_makes_it_lie(
    truth: Truth, directories: dict[str, Path], tmp_path: Path, form: str
) -> None:
    outcomes: Counter[str] = Counter()
    for number in range(DAMAGES):
        dice = random.Random(f"{SEED} {form} {number}")
        directory = Path(shutil.copytree(directories[form], tmp_path / str(number)))
        if dice.random() < 0.5:
            close(directory)
        what = damage(directory, dice)
        try:
            outcomes[outcome(truth, directory, dice)] += 1
        except Exception as error:
            raise AssertionError(f"damage {number} of {SEED} {form}: {what}: {error}") from error
        finally:
            for thread in threading.enumerate():
                if thread.name == "fastnode-damage":  # it reads tables
                    thread.join(PATIENCE_S)
        shutil.rmtree(directory)
    print(form, dict(outcomes))
    assert sum(outcomes.values()) == DAMAGES


def close(directory: Path) -> None:
    """Seal the databases, as a node that stops does."""
    with ChainData.open(directory, options=options()) as data:
        data.open_ingestor(verify=False).catch_up()
    assert all((directory / name / SEAL_FILE).exists() for name in DATABASES)


def outcome(truth: Truth, directory: Path, dice: random.Random) -> str:
    """``refused`` at the start or later, or ``harmless``; AssertionError for an answer that is not true."""
    try:
        with ChainData.open(directory, options=options()) as data:
            ingestor = data.open_ingestor(verify=False)
            ingestor.catch_up()
            refusals = 0
            for _ in range(LOOKS):
                try:
                    truth.judge(data, ingestor.view, dice, 2)
                except FastnodeError as error:
                    require_refusal(error, directory)
                    refusals += 1
            with contextlib.suppress(FastnodeError):
                problems = check_data(data).problems
                assert not refusals or problems
            return "refused later" if refusals else "harmless"
    except FastnodeError as error:
        require_refusal(error, directory)
        return "refused at the start"
