"""``fastnode db check`` over all databases of a data directory: the chain with its indexes, the state trees, that they
agree, the pool and the offenses."""

from __future__ import annotations

from fastnode.data_check.quick import look_at_data
from fastnode.data_check.whole import check_chain, check_data

__all__ = ["check_chain", "check_data", "look_at_data"]
