"""The store: a directory of Parquet files, opened as tables."""
