"""The local Hub, which the tests of ``tests/hub`` share."""

from local_hub import client, hub, running_client, running_hub

__all__ = ["client", "hub", "running_client", "running_hub"]
