"""Labels from answers: their card, and how they change the scores of models."""
