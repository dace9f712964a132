"""Disks that acknowledged what they did not store: databases whose logs lost writes start, at true roots, and go on.

Logs of one or both databases are cut, or end in zeros, at random places among writes that were acknowledged; in
directories that were closed, or killed.  Each starts at a block of the true chain with its true state, says how many
blocks were lost, and reaches the tip from its source.  A few are tried always, 200 with FASTNODE_LONG=1;
FASTNODE_SEED=N tries other ones.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from tests.power_cut.life import HISTORY_CHECKPOINTS, options
from tests.power_cut.test_damaged_files import DATABASES, FORMS, _made, close, copy_of_open
from tests.power_cut.truth import BLOCKS, PARTING, Truth

from fastnode.archiver.ingest import Ingestor
from fastnode.chain_data import ChainData, ChainOptions
from fastnode.data_check import check_data
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file

IS_LONG: Final = os.environ.get("FASTNODE_LONG") == "1"
SEED: Final = int(os.environ.get("FASTNODE_SEED", "41"))
CUTS: Final = 40 if IS_LONG else 3
LOOKS: Final = 3
MESSAGE: Final = "database recovered: its log lost acknowledged writes"
#: Nearly all of the chain is in the logs; final blocks that were applied in runs; the forms of damaged files.
ALL_FORMS: Final = ("in the log", "by runs", *FORMS)


@pytest.fixture(scope="module")
def directories(truth: Truth, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("forms")
    found = {form: _made(truth, folder / form, form) for form in FORMS}
    found["in the log"] = _in_the_log(truth, folder / "in the log", _large_log())
    found["by runs"] = _in_the_log(truth, folder / "by runs", _large_log(is_by_runs=True))
    return found


def _large_log(*, is_by_runs: bool = False) -> ChainOptions:
    """Buffers that take the whole chain."""
    return ChainOptions(
        world_state_cache_mb=4,
        world_state_checkpoint_history=HISTORY_CHECKPOINTS if is_by_runs else 0,
        world_state_history_from="sync" if is_by_runs else "genesis",
        tag_filter_mb=1,
    )


def _in_the_log(truth: Truth, folder: Path, chosen: ChainOptions) -> Path:
    with ChainData.open(folder / "closed", options=chosen) as data:
        adopt_chain_file(data.store, truth.files[0])
        ingestor = data.open_ingestor(verify=False)
        _apply(ingestor, truth)
        copy_of_open(folder / "closed", folder / "killed")
    return folder / "killed"


def _apply(ingestor: Ingestor, truth: Truth) -> None:
    checkpoints = truth.forks[0].checkpoints
    ingestor.final_checkpoint = PARTING
    for record in checkpoints[:-2]:
        ingestor.apply(record)
    ingestor.flush()


def lose(directory: Path, dice: random.Random) -> str:
    """Damage the end of one log or of both; says how."""
    done = []
    for name in dice.choice([*((one,) for one in DATABASES), DATABASES]):
        logs = [log for log in (directory / name).glob("*.log") if log.stat().st_size]
        if not logs:
            continue
        log = max(logs)
        content = log.read_bytes()
        place = dice.choice([0, max(0, len(content) - 700), dice.randrange(len(content)), dice.randrange(len(content))])
        kind = dice.choice(["cut", "cut", "zeros", "missing"])
        if kind == "missing" and place == 0:
            log.unlink()
        else:
            log.write_bytes(content[:place] + (bytes(len(content) - place) if kind == "zeros" else b""))
        done.append(f"{name}: {kind} at {place} of {len(content)}")
    return "; ".join(done)


@pytest.mark.parametrize("form", ALL_FORMS)
def test_a_database_that_lost_writes_goes_on_without_an_operator(
    truth: Truth, directories: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture, form: str
) -> None:
    caplog.set_level(logging.WARNING, "fastnode")
    lost: Counter[int] = Counter()
    for number in range(CUTS):
        dice = random.Random(f"{SEED} {form} {number}")
        directory = Path(shutil.copytree(directories[form], tmp_path / str(number)))
        if dice.random() < 0.3:
            close(directory)
        what = lose(directory, dice)
        caplog.clear()
        try:
            require_recovery(truth, directory, dice, caplog, lost)
            _require_clean_start(directory, caplog)
        except Exception as error:
            raise AssertionError(f"loss {number} of {SEED} {form}: {what}: {error}") from error
        shutil.rmtree(directory)
    print(form, "blocks lost:", sorted(lost.items()))


def require_recovery(
    truth: Truth, directory: Path, dice: random.Random, caplog: pytest.LogCaptureFixture, lost: Counter[int]
) -> None:
    with ChainData.open(directory, options=options()) as data:
        adopt_chain_file(data.store, truth.files[0])
        ingestor = data.open_ingestor(verify=False)
        ingestor.catch_up()
        view = ingestor.view
        for facts in (vars(record)["facts"] for record in caplog.records if record.message == MESSAGE):
            if Path(facts["database"]).name == "archiver":
                assert facts["block"] == view.tip_number
                lost[facts["blocks_lost"]] += 1
        truth.judge(data, view, dice, LOOKS)
        import_chain_file(ingestor, truth.files[0])
        assert ingestor.view.tip_number == BLOCKS
        truth.judge(data, ingestor.view, dice, LOOKS)
        assert check_data(data).problems == []


def _require_clean_start(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was lost is not reported again."""
    caplog.clear()
    with ChainData.open(directory, options=options()) as data:
        data.open_ingestor(verify=False).catch_up()
    assert MESSAGE not in caplog.messages
