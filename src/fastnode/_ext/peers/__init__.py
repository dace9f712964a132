"""Pages of logs by tag."""
