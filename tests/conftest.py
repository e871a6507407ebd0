"""Settings of every test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# The time of an example depends on how busy the machine is; no test depends on it.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")
