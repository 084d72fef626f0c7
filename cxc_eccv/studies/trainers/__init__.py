"""What the training scripts share: options, Trainer, batches, resuming, records of training data, cards."""
