"""Invariants of the package's classes, asked for after each step of each object while tests run, and never else.

A class that has ``invariant()`` says there what holds between its fields: it raises AssertionError when that is not so,
and does nothing else.  A step is a call of a method from outside the object, or by its loop; calls within it are part
of it.  An object that several threads use may be asked while another thread is at work in it; one that belongs to a
loop (its ``_loop``) is asked there alone.

What is found fails the test that runs: many steps belong to threads whose errors nobody hears.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import select
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, Final

#: Reports of the invariants that did not hold since they were taken last.
_broken: Final[list[str]] = []
_guarded: Final[set[type]] = set()
_seen_modules: Final[set[str]] = set()
#: Modules of any package at the last look in which all that were there had been read to their ends.
_seen_count = 0
_LOOKS_AGAIN: Final = 4
_AGAIN_S: Final = 0.005


class _Steps(threading.local):
    """Objects in whose methods a thread is, by ``id``."""

    def __init__(self) -> None:
        self.inside: set[int] = set()


_steps: Final = _Steps()


def guard_new_classes() -> None:
    """Guard classes of modules that were imported since the last call."""
    global _seen_count
    count, is_whole = len(sys.modules), True
    if count == _seen_count:
        return
    for name, module in list(sys.modules.items()):
        if name.startswith("fastnode.") and name not in _seen_modules:
            spec = getattr(module, "__spec__", None)
            if getattr(spec, "_initializing", False):
                is_whole = False
                continue
            _seen_modules.add(name)
            for found in list(vars(module).values()):
                if isinstance(found, type) and found.__module__ == name and "invariant" in vars(found):
                    guard(found)
    _seen_count = count if is_whole else 0


def guard(cls: type) -> None:
    """Have each step of the objects of a class end with their invariant."""
    if cls in _guarded:
        return
    _guarded.add(cls)
    for name, function in list(vars(cls).items()):
        if not inspect.isfunction(function) or name == "invariant" or inspect.isgeneratorfunction(function):
            continue
        if inspect.isasyncgenfunction(function) or (name.startswith("__") and name != "__init__"):
            continue
        wrapped = _ended_by_check(function) if inspect.iscoroutinefunction(function) else _checked(function)
        setattr(cls, name, wrapped)


def take_broken() -> list[str]:
    """Reports since the last call."""
    taken = list(_broken)
    _broken.clear()
    return taken


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def step(self: Any, *arguments: Any, **named: Any) -> Any:
        inside, own = _steps.inside, id(self)
        if own in inside:
            return function(self, *arguments, **named)
        inside.add(own)
        try:
            result = function(self, *arguments, **named)
        except BaseException:
            inside.discard(own)
            if function.__name__ != "__init__":
                _ask(self, function)
            raise
        inside.discard(own)
        _ask(self, function)
        return result

    return step


def _ended_by_check(function: Callable[..., Any]) -> Callable[..., Any]:
    """Others have their turn while a coroutine waits, so calls within it are steps too."""

    @functools.wraps(function)
    async def step(self: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return await function(self, *arguments, **named)
        finally:
            if id(self) not in _steps.inside:
                _ask(self, function)

    return step


def _ask(subject: Any, function: Callable[..., Any]) -> None:
    loop = getattr(subject, "_loop", None)
    if isinstance(loop, asyncio.AbstractEventLoop) and loop.is_running() and asyncio._get_running_loop() is not loop:
        return  # its loop is at work in it
    inside, own = _steps.inside, id(subject)
    inside.add(own)  # what it asks of itself is no step
    try:
        report = _report_on(subject)
        # Another thread may be between two of its assignments: what is broken stays so.
        for _ in range(_LOOKS_AGAIN if report and threading.active_count() > 1 else 0):
            select.select([], [], [], _AGAIN_S)
            if not (report := _report_on(subject)):
                break
        if report and len(_broken) < 10:
            _broken.append(f"after {function.__qualname__} of {subject!r}:\n{report}")
    finally:
        inside.discard(own)


def _report_on(subject: Any) -> str:
    """Empty if the invariant holds."""
    try:
        subject.invariant()
    except Exception:  # noqa: BLE001 - told at the end of the test
        return traceback.format_exc()
    return ""
