"""Where blocks come from, and the loop that follows a live chain."""
