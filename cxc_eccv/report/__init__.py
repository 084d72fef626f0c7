"""A Report as something to look at: ``page.py`` gathers it once, ``console.py`` and ``pages.py`` show it."""
