"""Connections between peers: identities, encryption, streams."""
