"""The chain as tables in Parquet files, for analysts: written in partitions, continued, verified."""
