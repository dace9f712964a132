"""Following a live chain: other nodes, the loop that asks them, and what operators can do to it."""
