"""What a job used: now, in each attempt, and over the run of one of its hosts, with charts."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from bastion.client.look.usage import JobUse
from bastion.client.look.views import JobView
from bastion.errors import BastionError
from bastion.job import PastAttempt
from bastion.utilisation import Utilisation
from bastion.value import value
from bastion.web.pages.job.page import LogAddress
from bastion.web.reading.host_use import HostKey, HostUseOverTime, HostUseReader
from bastion.web.reading.live_use import Uses

CHARTS = {
    "devices": "Devices: how much each is used",
    "device-memory": "Memory of its devices",
    "cores": "CPU cores",
    "memory": "Memory of its processes",
    "traffic": "Disk and network",
}
"""Name in an address -> title."""
OF_DEVICES = ("devices", "device-memory")


@value
class Chart:
    """One chart of the page."""

    title: str
    address: str


@value
class UsePart:
    """The resource use on the page of a job."""

    now: JobUse | None
    attempts: tuple[tuple[int, Utilisation], ...]
    """By the number of each sampled attempt that has ended."""
    address: LogAddress
    host: HostUseOverTime | None
    """Of the host that the address names."""
    charts: tuple[Chart, ...]
    trouble: str = ""

    @property
    def has_devices(self) -> bool:
        """Whether any device was sampled: otherwise nothing can be said about their use."""
        sampled = any(each.samples for _, each in self.attempts)
        return sampled or (self.host is not None and bool(self.host.devices))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known about its use."""
        return self.now is None and not self.attempts and self.host is None and not self.trouble


def use_part(
    reader: HostUseReader,
    uses: Uses,
    job: JobView,
    past: Sequence[PastAttempt],
    address: LogAddress,
    *,
    place: str,
    as_of: float,
) -> UsePart:
    """Return what is known about the use of `job`, and of the host that `address` names."""
    host, trouble = None, ""
    try:
        host = reader.of(host_key(job, address))
    except BastionError as error:
        trouble = error.message
    now = None if job.has_ended else uses.of_job(job.project, job.id, as_of)
    query = urlencode({**address.query, "samples": str(host.samples)}) if host else ""
    names = [name for name in CHARTS if host and (host.devices or name not in OF_DEVICES)]
    return UsePart(
        now=now,
        attempts=_attempts(job, past),
        address=address,
        host=host,
        charts=tuple(
            Chart(title=CHARTS[name], address=f"{place}/use/{name}.svg?{query}") for name in names
        ),
        trouble=trouble,
    )


def host_key(job: JobView, address: LogAddress) -> HostKey:
    """Return the host of `job` that `address` names."""
    return job.project, job.id, address.attempt, address.replica, address.host


def _attempts(job: JobView, past: Sequence[PastAttempt]) -> tuple[tuple[int, Utilisation], ...]:
    told = tuple((each.number, each.utilisation) for each in past if each.utilisation is not None)
    if not told and job.utilisation is not None:
        return ((job.attempt, job.utilisation),)
    return told
