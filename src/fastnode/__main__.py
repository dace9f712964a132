"""Allows ``python -m fastnode``."""

import os
import sys


def _is_current_directory(folder: str) -> bool:
    try:
        return folder == os.getcwd()  # noqa: PTH109 - pathlib would be imported from that folder
    except FileNotFoundError:
        return folder == ""


# Without -P, Python has put the current directory first, and its files would be imported in place of installed modules.
if not sys.flags.safe_path and _is_current_directory(sys.path[0]):
    del sys.path[0]

from fastnode.cli import main  # noqa: E402 - see above

if __name__ == "__main__":
    main()
