"""Reports to look at: ``page_content.py`` holds the content, ``console.py``, ``pages.py`` and others show it."""
