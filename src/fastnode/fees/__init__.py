"""Prices of gas: from the chain, from another node, from L1."""
