"""One repository on the Hub: access, what it answers, its faults, and no secret in any message."""

from cxc_eccv.hub.client.answers import repeat
from cxc_eccv.hub.client.repository import Access, Repository, text_diff

__all__ = ["Access", "Repository", "repeat", "text_diff"]
