"""Dual encoders of the CxC paper: text-text, image-text, or both, over any Hugging Face backbones."""
