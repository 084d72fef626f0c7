"""Machine-in-the-loop labels: projects in which models propose pairs and people judge them, and label quality."""
