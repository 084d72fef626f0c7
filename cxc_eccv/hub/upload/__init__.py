"""A folder to a repository on the Hub, as one commit."""

from cxc_eccv.hub.upload.push import plan_push

__all__ = ["plan_push"]
