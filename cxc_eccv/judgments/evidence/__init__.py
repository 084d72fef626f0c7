"""The sources of labels: `source.py` declares those of papers, and one SOURCE per further file."""
