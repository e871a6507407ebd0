"""The proxies of a Mac: none. urllib imports this module where the platform is darwin."""

from __future__ import annotations


def _get_proxies() -> dict[str, str]:
    return {}


def _get_proxy_settings() -> dict[str, str]:
    return {}
