"""Queries with what was retrieved for them."""
