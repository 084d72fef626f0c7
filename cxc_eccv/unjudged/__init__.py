"""Pairs that no source labels: what a policy counts them as, and judges that label them."""
