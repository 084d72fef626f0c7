"""A folder to a repository, as one commit."""

from cxc_eccv.hub.upload.plan import text_diff
from cxc_eccv.hub.upload.push import planned_push

__all__ = ["planned_push", "text_diff"]
