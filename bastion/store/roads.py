"""
`Roads`: connections to servers, through a proxy if the environment names one.

As in all clouds' tools, `HTTPS_PROXY` and `HTTP_PROXY` name the proxy, and `NO_PROXY` the hosts
that are reached directly. A metadata server is part of the machine and never behind a proxy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

if TYPE_CHECKING:
    import urllib3

_METADATA = frozenset({"metadata.google.internal", "metadata", "169.254.169.254", "fd20:ce::254"})
"""Source: Compute Engine documentation, "About VM metadata"."""


class Roads:
    """
    One connection pool per proxy, and one for direct connections.

    Args:
        options: Options of each pool, as for `urllib3.PoolManager`.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._pools: dict[str, urllib3.PoolManager] = {}

    def request(self, method: str, url: str, **given: Any) -> urllib3.BaseHTTPResponse:
        """Send one request, as `urllib3.PoolManager.request` does."""
        return self._pool(proxy_of(url)).request(method, url, **given)

    def _pool(self, proxy: str) -> urllib3.PoolManager:
        import urllib3

        if proxy not in self._pools:
            self._pools[proxy] = (
                urllib3.ProxyManager(proxy, **self._options)
                if proxy
                else urllib3.PoolManager(**self._options)
            )
        return self._pools[proxy]


def proxy_of(url: str) -> str:
    """Return the URL of the proxy for `url`, or an empty string."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxies = getproxies_environment()
    if host in _METADATA or proxy_bypass(parts.netloc):
        return ""
    return proxies.get(parts.scheme, proxies.get("all", ""))
