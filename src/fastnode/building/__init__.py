"""Blocks and checkpoints made of the transactions of the pool."""
