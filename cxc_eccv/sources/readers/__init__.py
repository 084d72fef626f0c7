"""Raw file to typed table, a reader per source."""
