"""Stand-ins for pytest and hypothesis where these are not installed: the fuzzer imports helpers of test modules."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class Anything:
    """Has every attribute and takes every argument; as a decorator it returns what it decorates."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *arguments: Any, **_: Any) -> Any:
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else self

    def __or__(self, _: object) -> Anything:
        return self


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


for _name in ("pytest", "hypothesis"):
    if find_spec(_name) is None:
        sys.modules[_name] = _Module(_name)
