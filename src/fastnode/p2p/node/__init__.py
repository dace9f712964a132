"""The node in the network: connections, peers, gossip and requests put together, in a loop of their own."""
