"""What benchmarks share lies beside them, and is imported by its bare name."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

PASSED_OVER: set[str] = set()


def pytest_configure(config: pytest.Config) -> None:
    from steady import SECONDS_EACH, SteadyCheck

    checks = getattr(config.option, "benchmark_compare_fail", None)
    if checks:
        config.option.benchmark_compare_fail = [SteadyCheck(check, PASSED_OVER) for check in checks]
        config.option.benchmark_max_time = str(max(float(config.option.benchmark_max_time), SECONDS_EACH))


@pytest.hookimpl(trylast=True)  # runs are compared in the same hook of the plugin
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    from steady import ROUNDS_MIN

    if PASSED_OVER:
        terminalreporter.write_line(f"not held to the earlier run, with fewer than {ROUNDS_MIN} rounds:")
        for name in sorted(PASSED_OVER):
            terminalreporter.write_line(f"  {name}")
