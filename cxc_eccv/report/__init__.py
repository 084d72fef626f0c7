"""Reports to look at: ``page.py`` and ``rows.py`` hold the content, ``console.py``, ``pages.py`` and others show it."""
