"""A chain of one's own for developing against: a block the moment a transaction arrives, time under control."""
