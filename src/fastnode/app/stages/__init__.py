"""First stages of a node: its ports and databases, then its chain, the pool, and the source of new blocks."""
