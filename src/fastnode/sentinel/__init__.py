"""Duties done and missed: statistics of validators from what was published."""
