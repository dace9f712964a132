"""Merkle trees: witnesses and low leaves."""
