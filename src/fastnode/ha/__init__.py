"""The database that lets several nodes share one validator's duties without ever signing one twice."""
