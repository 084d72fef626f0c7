"""A folder to a repository, as one commit."""
