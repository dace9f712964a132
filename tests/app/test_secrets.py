"""Words that a start shows, where, and in which encoding: no key, and no URL with one, is ever on standard error."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import forked_nodes
from tests.conftest import NO_FIXED_PORTS, PATIENCE_S, NodeProcess, clean_environment
from tests.ports import free_port

StartNode = Callable[..., NodeProcess]
KEY = re.compile(r"\b[0-9a-f]{64}\b")


@pytest.mark.parametrize(
    "names",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "en_US"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "ascii:strict"},
    ],
    ids=str,
)
def test_a_first_start_shows_its_key_in_any_locale(names: dict[str, str], start_node: StartNode) -> None:
    node = start_node(**names).wait_until_serving()
    assert KEY.fullmatch(node.admin_key)
    assert node.call_admin("nodeAdmin_getConfig", key=node.admin_key)["result"]
    assert node.stop() == 0
    assert node.admin_key not in node.log.read_text()


def test_a_key_that_cannot_be_shown_is_in_no_message() -> None:
    command = [sys.executable, "-m", "fastnode", "start", "--node", *NO_FIXED_PORTS]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, env=clean_environment()
        )
    assert done.returncode == 1
    assert "the new admin API key cannot be shown on standard output (No space left on device)" in done.stderr
    assert KEY.search(done.stderr) is None


def test_urls_of_collectors_are_in_no_log_and_not_shown(start_node: StartNode) -> None:
    url = f"http://name:word-of-pass@127.0.0.1:{free_port()}/v1/path-with-key?token=token-with-key"
    names = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": url, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": url}
    command = [sys.executable, "-m", "fastnode", "config", "show"]
    shown = forked_nodes.run(command, text=True, check=True, env=clean_environment(**names))
    node = start_node(OTEL_COLLECT_INTERVAL_MS="100", OTEL_EXPORT_TIMEOUT_MS="1000", **names).wait_until_serving()
    node.call("node_getVersion")
    node.wait_for_line("Failed to export")
    assert node.stop() == 0
    for text in (shown.stdout + shown.stderr, node.log.read_text()):
        assert "127.0.0.1" in text or "(set, not shown)" in text
        for secret in ("word-of-pass", "path-with-key", "token-with-key"):
            assert secret not in text
