"""The towers of a model, each from items to vectors: texts, images, and what a forward pass returns of either."""
