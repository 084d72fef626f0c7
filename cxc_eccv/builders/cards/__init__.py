"""Cards: what a reader of a dataset repository sees, computed from the data."""
