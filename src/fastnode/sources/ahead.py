"""Prefetching: the next item is made while one is used."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Executor, wait
from typing import TypeVar

__all__ = ["made_ahead"]

T = TypeVar("T")


def made_ahead(executor: Executor, items: Generator[T, None, None]) -> Generator[T, None, None]:
    """The items in order: while one is used, the next is made by the executor.

    ``items`` runs in one thread at a time, and no longer than this generator: closing it waits for the item that is
    being made.  What ``items`` raises is raised here.
    """
    done = object()
    following = executor.submit(next, items, done)
    try:
        while (item := following.result()) is not done:
            following = executor.submit(next, items, done)
            yield item  # type: ignore[misc]
    finally:
        if not following.cancel():
            wait([following])
        items.close()
