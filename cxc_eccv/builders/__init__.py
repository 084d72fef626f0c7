"""From dataset configs to Parquet folders for the Hub, ``datasets`` builders, and cards."""
