"""Headless Chromium, which the tests of the studies' pages share."""

from headless import browser, chromium, visitor

__all__ = ["browser", "chromium", "visitor"]
