"""A local chain to develop against: a block the moment a transaction arrives, time under control."""
