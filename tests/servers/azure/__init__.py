"""Azure Resource Manager on loopback, checked against the fields that Azure publishes."""

from tests.servers.azure.arm import ArmError, ArmServer, lost

__all__ = ["ArmError", "ArmServer", "lost"]
