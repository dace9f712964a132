"""Values from outside: one type for each kind, which reads, describes and writes it."""
