"""What labels are worth: precision and recall, multiplicity, the bias and the diversity of who proposed them."""
