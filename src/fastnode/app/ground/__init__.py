"""Ground of every process of a node: settings, method tables, servers, views, memory and priorities."""
