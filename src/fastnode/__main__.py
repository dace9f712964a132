"""Allows ``python -m fastnode``."""

from fastnode.cli import main

if __name__ == "__main__":
    main()
