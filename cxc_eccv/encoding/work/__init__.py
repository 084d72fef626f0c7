"""The work that processes share: items, shards on disk, passes over them."""
