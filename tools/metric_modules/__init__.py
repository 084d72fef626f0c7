"""Generator of the ``evaluate`` modules in ``metrics/``: everything derives from the metrics' declarations."""
