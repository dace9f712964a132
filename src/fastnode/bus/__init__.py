"""Blocks and transactions between the nodes of a fleet, over NATS JetStream."""
