"""What makes, explains and verifies labels, and trains models: one room a study; the core imports none of them."""
