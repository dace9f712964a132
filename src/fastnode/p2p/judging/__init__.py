"""Verdicts on messages of peers: what the node knows of them, and points that peers lose."""
