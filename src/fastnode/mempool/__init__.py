"""Transactions that are not in a block yet: checking them, keeping them, handing them on."""
