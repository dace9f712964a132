"""Requests to other machines: JSON-RPC clients, their health, and the thread that runs them."""
