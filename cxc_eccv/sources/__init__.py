"""Raw files of the field: where they are, what bytes they hold, and readers to typed Arrow tables."""
