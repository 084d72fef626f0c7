"""What the ``evaluate`` modules in ``metrics/`` run on."""
