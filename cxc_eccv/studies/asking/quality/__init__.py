"""Quality of answers and agreement between people."""
