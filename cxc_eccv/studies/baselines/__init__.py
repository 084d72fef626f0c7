"""Baselines: trained and untrained reference models."""
