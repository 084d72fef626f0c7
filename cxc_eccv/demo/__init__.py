"""The demo: the whole path on the embedded sample, with a closed-form model."""
