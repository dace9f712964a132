"""Who did their duty: statistics of validators from what was published."""
