"""The node put together: stages, ingestion, method tables, process."""
