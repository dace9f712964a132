"""The peer-to-peer network of release 4.x: connections, gossip, requests, scores, discovery."""
