"""Writing to L1: checkpoints and proofs become transactions, each signed once and watched until it is decided."""
