"""LevelDB on disk: databases, the data directory with its lock, replacing one set of databases by another."""
