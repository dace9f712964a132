"""Running the public part of transactions: what a block does to the state, and what a simulation answers."""
