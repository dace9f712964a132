"""One node in several processes: a primary that writes, workers that answer.  docs/workers.md has the picture."""
