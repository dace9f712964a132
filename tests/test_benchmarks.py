"""What the benchmarks rest on: a client of another make, and which figures may be held to earlier ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture(autouse=True)
def beside_the_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(BENCH)])


def test_the_figures_of_wrk_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from load_client import ask_with_wrk

    wrk = tmp_path / "wrk"
    wrk.write_text(
        "#!/bin/sh\necho Running\n"
        """echo '{"requests":50,"duration_us":2000000,"errors":0,"at_us":[1000,2000,3000]}'\n"""
    )
    wrk.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    measured = ask_with_wrk("http://127.0.0.1:1/", [b"request"], 4, 1)
    assert measured.rate == 25
    assert [measured.percentile(percent) for percent in (50, 99, 99.9)] == [0.001, 0.002, 0.003]


class Worse:
    """A check that everything fails."""

    def fails(self, current: Any, compared: Any) -> str | None:
        return "it is worse"


@pytest.mark.parametrize(("now", "before", "judged"), [(5000, 5000, True), (4999, 9000, False), (9000, 5, False)])
def test_only_what_had_many_rounds_is_held_to_an_earlier_run(now: int, before: int, judged: bool) -> None:
    from steady import SteadyCheck

    passed_over: set[str] = set()
    check = SteadyCheck(Worse(), passed_over)
    said = check.fails({"rounds": now}, {"rounds": before, "fullname": "bench_a"})
    assert (said, passed_over) == (("it is worse", set()) if judged else (None, {"bench_a"}))
