"""Raw files: where they are, their hashes, and readers that turn them into typed Arrow tables."""
