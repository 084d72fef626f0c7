"""Generator of ``metrics/``: everything derives from the declarations of the metrics."""
