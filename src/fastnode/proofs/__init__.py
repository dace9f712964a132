"""The proofs of transactions: what can be said of them."""
