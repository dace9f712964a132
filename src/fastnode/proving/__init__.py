"""Proving epochs: what goes into a proof, the batched blob, the program that makes it, the transaction to L1."""
