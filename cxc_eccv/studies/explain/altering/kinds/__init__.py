"""One file per kind of alteration; each defines KIND."""
