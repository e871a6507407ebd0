"""A command that a user wants to run next to a job's processes: sent to the job's machine."""

from __future__ import annotations

from hashlib import sha256

from bastion.job import JobRecord, Phase
from bastion.machine import Exec
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.keys.layout import RequestName
from bastion.records.reports.registers import LongCommand
from bastion.records.requests.job_request import ExecRequest
from bastion.service.draft.root_draft import Draft
from bastion.service.intake.permissions import ownership_problem
from quota import Quota

SHORT_BYTES = 256
"""Longest command that root holds until its machine has received it: a thousand take 256 kB."""


def execute(draft: Draft, asked: RequestName, body: ExecRequest, quota: Quota | None) -> str:
    """
    Instruct the machine of a host to run a command; return why that is impossible, or nothing.

    The command has the request's name, so the client knows where its output will be.
    """
    job = draft.jobs.get(body.job)
    if job is None or job.project != asked.project:
        return f"{body.job}: no such active job in project {asked.project}"
    if quota is None:
        return "no quota file is in force, so no job may be changed"
    problem = ownership_problem(asked, job, quota)
    return problem or _instruct(draft, job, asked, body)


def _instruct(draft: Draft, job: JobRecord, asked: RequestName, body: ExecRequest) -> str:
    attempt = job.attempt
    if attempt is None or job.phase is not Phase.RUNNING:
        return f"{job.id}: is {job.phase}; a command runs beside the processes of a running job"
    if body.replica >= len(attempt.placement):
        count = len(attempt.placement)
        return f"{job.id} has no replica {body.replica}; it has {count}, counted from 0"
    hosts = attempt.placement[body.replica].hosts
    if body.host >= len(hosts):
        each = f"each replica has {len(hosts)}, counted from 0"
        return f"{job.id} has no host {body.host}; {each}"
    state = attempt.hosts[body.replica][body.host]
    machine = draft.machines.get(hosts[body.host].machine)
    if state.end is not None and state.hold is None:
        return f"{job.id}: replica {body.replica} has ended on host {body.host}"
    if machine is None or not machine.life:
        return f"{job.id}: the machine of replica {body.replica} has no agent now"
    argv, digest, command = body.argv, "", asked.ulid
    if sum(len(each.encode()) + 1 for each in argv) > SHORT_BYTES:
        data = encode(LongCommand(argv=argv))
        argv, digest = (), sha256(data).hexdigest()
        request = layout.request(asked.project, asked.user, asked.ulid, asked.verb)
        draft.write_first(layout.argv(machine.name, command, digest), data, request=request)
    draft.instruct(
        machine.name,
        Exec(
            id=command,
            project=job.project,
            job=job.id,
            attempt=attempt.number,
            nonce=attempt.nonce,
            replica=body.replica,
            host=body.host,
            process=body.process,
            argv=argv,
            argv_digest=digest,
            max_runtime_s=body.max_runtime_s,
        ),
    )
    draft.tell(what="exec", text=" ".join(body.argv)[:200], job=job)
    return ""
