"""Compute Engine and Cloud TPU on loopback, checked against Google's own descriptions."""

from tests.servers.google.cloud import ApiError, Cloud, lost
from tests.servers.google.compute import Compute
from tests.servers.google.tpu import Tpu

__all__ = ["ApiError", "Cloud", "Compute", "Tpu", "lost"]
