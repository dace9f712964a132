"""Logs and contracts: indexes beside the chain, in the chain's own database.

A node needs one object, :class:`ChainIndexes`, and in this order::

    indexes = ChainIndexes(filter_bytes=settings.tag_filter_mb << 20)
    indexes.catch_up(store)                                  # blocks stored without the indexes
    ingestor = Ingestor(store, ..., index_writers=indexes.writers)
    indexes.load_filter(ingestor.view, directory / TAG_FILTER_FILE)   # any thread, any time later
    methods = log_methods.methods(indexes.known_tags, ...)
    ...
    indexes.save_filter(ingestor.view, directory / TAG_FILTER_FILE)   # ingestion has stopped

Everything that writes the chain must write the indexes too, so ``import`` passes the writers as well;
it needs neither filter file nor methods.

``index`` writes and undoes what a block's logs add, ``tag_queries`` and ``range_queries`` read it,
``known_tags`` keeps in memory which tags exist at all, ``contracts`` does the same as ``index`` for
classes, instances and their updates, ``check`` compares all of it with the blocks.
"""

from fastnode.log_index.indexes import TAG_FILTER_BYTES, ChainIndexes
from fastnode.log_index.known_tags import TAG_FILTER_FILE

__all__ = ["TAG_FILTER_BYTES", "TAG_FILTER_FILE", "ChainIndexes"]
