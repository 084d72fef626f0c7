"""Label quality: precision and recall, multiplicity, and the bias and diversity of the models that proposed pairs."""
