"""Copies of the databases at one moment: made while the node runs, kept at a location, restored elsewhere."""
