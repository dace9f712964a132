"""The servers: both ports, the fast path, guards of the admin port."""
