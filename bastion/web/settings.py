"""The configuration of a page server, and what follows from the kind of bucket."""

from __future__ import annotations

from ipaddress import ip_address

from bastion.errors import SpecError
from bastion.store.reach import Reach, reach_of
from bastion.value import value

PORT = 8420
READ_EVERY_S = {Reach.FOLDER: 0.5, Reach.LOOPBACK: 1.0, Reach.CLOUD: 5.0}
"""Between two reads of the views: as often as a bastion on such a store publishes them."""
LOG_EVERY_S = {Reach.FOLDER: 0.5, Reach.LOOPBACK: 0.5, Reach.CLOUD: 3.0}
"""Between two reads of the end of a followed log."""
USE_EVERY_S = {Reach.FOLDER: 5.0, Reach.LOOPBACK: 5.0, Reach.CLOUD: 30.0}
"""
Between two reads of what machines use. They report it every ten seconds, on a cloud every minute,
and each new report is one object to read.
"""
LOOPBACK_PROXIES = ("127.0.0.1", "::1")


@value
class WebSettings:
    """One server of pages."""

    root_url: str
    host: str = "127.0.0.1"
    port: int = PORT
    """0: any free port."""
    token: str = ""
    """What every request must carry; empty: nothing is required."""
    user_header: str = ""
    """The header in which an authenticating proxy names the user; empty: no header is trusted."""
    proxies: tuple[str, ...] = LOOPBACK_PROXIES
    """The addresses that can set it."""
    followers: int = 100
    """Maximum number of simultaneously followed pages and logs."""

    def __post_init__(self) -> None:
        problems = []
        if not 0 <= self.port <= 65535:
            problems.append(f"port: {self.port} is not allowed; 0 to 65535")
        if not self.is_loopback and not self.token and not self.user_header:
            problems.append(
                f"host: {self.host} can be reached by others; give --token_file, or --user_header"
                " behind a proxy that authenticates"
            )
        if self.token and self.user_header:
            problems.append("token_file and user_header exclude each other")
        problems += [
            f"proxy: {each!r} is no IP address; name one, as 10.0.0.5"
            for each in self.proxies
            if not _is_address(each)
        ]
        if self.proxies != LOOPBACK_PROXIES and not self.user_header:
            problems.append(
                f"proxy: {', '.join(self.proxies)} without user_header has no effect; give"
                " --user_header too, the header in which the proxy names the user"
            )
        if problems:
            raise SpecError(*problems)

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can reach it."""
        if self.host == "localhost":
            return True
        return _is_address(self.host) and ip_address(self.host).is_loopback

    @property
    def read_every_s(self) -> float:
        """Minimum time between two reads of the views."""
        return READ_EVERY_S[reach_of(self.root_url)]

    @property
    def use_every_s(self) -> float:
        """Minimum time between two reads of what machines use."""
        return USE_EVERY_S[reach_of(self.root_url)]

    @property
    def log_every_s(self) -> float:
        """Time between two reads of the end of a log."""
        return LOG_EVERY_S[reach_of(self.root_url)]


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
