"""Writing the dataset folder: shards, manifest, the whole folder at once."""
