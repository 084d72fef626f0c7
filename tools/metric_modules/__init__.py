"""Generator of ``cxc_eccv/adapters/modules/``: everything derives from the declarations of the metrics."""
