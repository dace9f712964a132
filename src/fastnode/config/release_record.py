"""The record of a release that the operator gives."""

from __future__ import annotations

from pathlib import Path

from fastnode.errors import SettingError
from fastnode.files import system_reason
from fastnode.protocol import releases

__all__ = ["know_record"]


def know_record(path: Path) -> None:
    """Know the release of this file from now on, in the whole process; SettingError says what is wrong with it."""
    try:
        releases.add(releases.read_file(path))
    except OSError as error:
        raise SettingError(f"--release-record {path}: {system_reason(path, error)}") from None
    except ValueError as error:
        raise SettingError(f"--release-record {path}: {error}") from None
