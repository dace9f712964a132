"""Requests to other servers: HTTP, JSON-RPC, the health of endpoints, failover."""
