"""The pages of annotation reports and of label quality."""
