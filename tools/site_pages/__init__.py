"""The generated parts of ``docs/`` and ``mkdocs.yml``."""
