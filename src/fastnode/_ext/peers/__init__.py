"""Wire formats of peers: frames and RLP."""
