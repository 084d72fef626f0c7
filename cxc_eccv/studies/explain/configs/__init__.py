"""Configurations of the dataset that hold altered captions."""
