"""Headless Chromium, which the tests of all pages share."""

from headless import browser, chromium, visitor

__all__ = ["browser", "chromium", "visitor"]
