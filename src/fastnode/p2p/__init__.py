"""The peer-to-peer network of release 4.1.2: connections, gossip, requests, scores, discovery."""
