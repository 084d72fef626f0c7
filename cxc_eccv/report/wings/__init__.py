"""Pages of what the wings find: an annotation, what labels are worth, a simulation, a classifier, failed queries."""
