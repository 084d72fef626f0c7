"""Reports to look at: ``page.py`` gathers the content, ``console.py``, ``pages.py`` and ``paper.py`` show it."""
