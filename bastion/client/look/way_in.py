"""From a job to the way into one of its machines."""

from __future__ import annotations

import socket

from bastion.client.look.find_job import check_is_one, machine_of
from bastion.client.look.published import Published
from bastion.client.look.views import JobView
from bastion.errors import NotFoundError
from bastion.provider.way_in import Target, WayIn, way_in


def way_to(published: Published, job: JobView, *, replica: int, host: int) -> WayIn:
    """
    Return how to reach the machine of one host of `job` from here.

    Raises:
        NotFoundError: The job does not run, is an array, or has no such host, or its machine cannot
            be reached.
        StoreError: The bucket is unreachable.
    """
    check_is_one(job)
    if not job.placement:
        is_over = f"has ended: {job.state}" if job.has_ended else f"is {job.state}"
        raise NotFoundError(f"{job.id} {is_over}; it has no machine")
    name = machine_of(job, replica=replica, host=host)
    machines = {machine.name: machine for machine in published.pools().machines}
    machine = machines.get(name)
    pool = published.pool_records().get(machine.pool) if machine is not None else None
    if machine is None or pool is None:
        raise NotFoundError(f"{name}: nothing is published about this machine or its pool")
    target = Target(
        machine=machine.name,
        zone=machine.zone,
        hostname=machine.hostname,
        address=machine.address,
    )
    return way_in(target, pool, bucket=published.bucket(), host_here=socket.gethostname())
