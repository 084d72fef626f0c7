"""Reference models: what a number means is easier to see beside a baseline's."""
