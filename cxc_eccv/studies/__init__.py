"""Studies: they make, explain and verify labels, and train models; the core imports none of them."""
