"""What is learnt from a block of scores while it is there."""
