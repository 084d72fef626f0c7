"""A raw file onto this machine: fetched, verified, resumed."""
