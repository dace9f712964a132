"""JSON-RPC: engine, method table, waiting for a block, rate limits.  Knows no chain."""
