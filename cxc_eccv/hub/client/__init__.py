"""One repository on the Hub: access, answers, faults, and no secrets in any message."""

from cxc_eccv.hub.client.access import Access
from cxc_eccv.hub.client.answers import TRIES, wait_before_next
from cxc_eccv.hub.client.repository import RemoteFile, Repository

__all__ = ["TRIES", "Access", "RemoteFile", "Repository", "wait_before_next"]
