"""Sources of blocks, and the loop that follows a live chain."""
