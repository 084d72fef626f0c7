"""Dataset configs to a Hub-ready Parquet folder, to ``datasets`` builders, and to their cards."""
