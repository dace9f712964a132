"""docs/methods.md says what the table says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fastnode.api.chain import METHODS
from fastnode.app.ground.documentation import render, render_five

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("page", "arguments"), [("methods.md", []), ("methods-5.md", ["5.x"])])
def test_the_page_of_the_methods_is_current(page: str, arguments: list[str]) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "fastnode.app.ground.documentation", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (DOCS / page).read_text() == made.stdout, "run scripts/make-docs"


def test_the_page_shows_sets_bounds_and_what_may_be_absent() -> None:
    page = render(METHODS)
    assert "| release: `(blockParameter: BlockParam)` gives `L2Block` or nothing; development: `(" in page
    assert "| development only: `(query: CheckpointsQuery)` gives `CheckpointData[]` |" in page
    assert "`(from: number 1.., limit: number 1..50)` gives `CheckpointedL2Block[]`" in page
    assert "| `(txHash: TxHash)` gives `TxReceipt` |" in page
    page = render_five(METHODS)
    receipts = r"MinedTxReceipt\|PendingTxReceipt\|DroppedTxReceipt"
    assert f"| `(txHash: TxHash, options?: GetTxReceiptOptions)` gives `{receipts}` |" in page
    assert "getL2Tips" not in page
