"""HTTP/1.1: connections, messages, codings, limits, probes.  Knows no JSON-RPC."""
