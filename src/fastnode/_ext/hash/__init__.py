"""Poseidon2: one hash, many, in threads."""
