"""Headless Chromium, which the tests of the studies' pages share."""

from headless import chromium, measure

__all__ = ["chromium", "measure"]
