"""What the primary of a node with workers keeps for them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fastnode.app.ground.method_tables import Services
from fastnode.app.roles import workers as primary
from fastnode.log_index.function_names import FunctionNames
from fastnode.log_index.known_tags import KnownTags


def test_signatures_for_later_workers_are_bounded_by_their_length_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(primary, "_SIGNATURES_LENGTH_MAX", 100)
    joined: Any = SimpleNamespace(function_names=FunctionNames())
    services = Services(known_tags=KnownTags(1 << 10), allow_list=tuple, function_names=joined.function_names)
    answers = primary._Answers(joined, services)
    for signature in ("first()", "f" * 40 + "()", "g" * 40 + "()", "f" * 40 + "()", "h()", "first()", "i()"):
        answers.register(signature)
    assert answers.signatures() == ["g" * 40 + "()", "f" * 40 + "()", "h()", "first()", "i()"]
    answers.register("x" * 60 + "()")
    assert answers.signatures() == ["h()", "first()", "i()", "x" * 60 + "()"]
