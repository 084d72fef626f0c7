"""Hugging Face Hub: what the ``evaluate`` modules in ``metrics/`` run on."""
