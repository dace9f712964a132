"""Gossip of the four topics: gossipsub as a state machine, its messages, its scores."""
