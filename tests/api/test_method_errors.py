"""The catalogue of errors: each code that the source raises has its row on the page of methods."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from fastnode import errors
from fastnode.api import method_errors
from fastnode.errors import RpcError
from fastnode.sources import rollback

PROJECT = Path(__file__).parents[2]
SOURCE = PROJECT / "src" / "fastnode"


def reasons_of(path: Path) -> Iterator[str]:
    """Values of ``data.code`` that a module writes."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                is_code = isinstance(key, ast.Constant) and key.value == "code" and isinstance(value, ast.Constant)
                if is_code and isinstance(value.value, str):  # type: ignore[union-attr]
                    yield value.value  # type: ignore[union-attr]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "TxRejected":
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value


def test_every_reason_that_the_source_gives_is_in_the_catalogue_and_no_other() -> None:
    written = {reason for path in SOURCE.rglob("*.py") for reason in reasons_of(path)}
    written |= {code for _, code in rollback._RUNNING.values()}
    assert "STARTING" in written
    assert written == set(method_errors.REASONS)


def test_every_code_of_an_error_class_is_in_the_catalogue() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RpcError)]
    assert {kind.code for kind in kinds} == set(method_errors.CODES)


def test_every_reason_of_a_method_is_in_the_catalogue() -> None:
    assert {reason for reasons in method_errors._CODES.values() for reason in reasons} <= set(method_errors.REASONS)


def test_the_page_of_methods_has_the_catalogue() -> None:
    page = (PROJECT / "docs" / "methods.md").read_text()
    assert all(f"| {code} | " in page for code in method_errors.CODES)
    assert all(f"| `{reason}` | " in page for reason in method_errors.REASONS)
