"""Commands that train models, and those without training."""
