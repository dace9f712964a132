"""Values from outside: how one is read, and why it is refused."""
