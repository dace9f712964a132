"""Finding peers, and being found: node records, discv5."""
