"""
Machines that are hosts of your own, reached by OpenSSH.

Each host is a zone and holds one machine. What is done there is done by `bastion.provider.remote`,
a program of this very build, which is put on the host when it is missing:

    <folder>/builds/<digest>/          bastion, bundler and quota
    <folder>/python/<digest>/          their Python with what they need, unless the pool names one
    <folder>/<bucket>/<machine>/       see `bastion.provider.local`

The provider cannot say that a machine is gone because its host does not answer: such a machine is
left out of a list, and only its keeper's permit proves after a time that nothing runs there.

Names of hosts are those of the user's own OpenSSH configuration, with its jump hosts and keys. A
host whose key is not known is refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from importlib.metadata import requires
from pathlib import Path
from typing import Any, get_args

from bastion.errors import NoCapacityError, ProviderUnavailableError
from bastion.machine import Machine, Pool
from bastion.machine_name import parse_machine
from bastion.provider.port import Listed, State

FOLDER = ".bastion"
"""On a host, below the home of the user that is logged in."""
_CONNECT_S = 10
_CALL_S = 60.0
"""Longest call: agents are started and ended in seconds."""
_INSTALL_S = 600.0
"""Longest installation: wheels of some megabytes over a slow line."""
_MISSING = 97
"""Exit status of a host on which this build is not installed."""
_MAX_ANSWER_BYTES = 4 << 20
_ROOMS = ("bastion", "bundler", "quota")


class SshProvider:
    """
    Machines on the hosts of one pool.

    Args:
        root_url: The bucket that their agents serve; every host must reach it.
        pool: Its zones are the hosts.
        bucket: The bucket's own name, which keeps its machines apart from another's.
        build: The digest of this build of Bastion.
        ssh: The command that connects; the host and a command line for its shell follow.
    """

    def __init__(
        self,
        root_url: str,
        pool: Pool,
        *,
        bucket: str,
        build: str,
        ssh: Sequence[str] = ("ssh",),
    ) -> None:
        self._pool = pool
        self._build = build
        config = pool.options.get("ssh_config", "")
        self._ssh = (
            *ssh,
            *("-T", "-oBatchMode=yes", f"-oConnectTimeout={_CONNECT_S}"),
            *("-oServerAliveInterval=5", "-oServerAliveCountMax=3"),
            *(("-F", config) if config else ()),
        )
        self._folder = pool.options.get("folder", FOLDER)
        self._python = pool.options.get("python", "")
        self._wanted = _wanted(root_url)
        self._about: Mapping[str, Any] = {
            "folder": self._folder,
            "bucket": bucket,
            "root": root_url,
            "build": build,
            "keep_work_s": pool.keep_work_s,
            "run_as": pool.run_as,
            "permit_s": pool.permit_s,
        }

    def list(self) -> tuple[Listed, ...]:
        """See the port; hosts that do not answer are left out, unless none does."""
        answers, errors = self._ask(self._pool.zones, {"do": "list"})
        if errors and not answers:
            raise next(iter(errors.values()))
        found = []
        for host, answer in answers.items():
            machines = answer.get("machines")
            for each in machines if isinstance(machines, list) else ():
                found.append(self._listed(host, each if isinstance(each, dict) else {}))
        return tuple(listed for listed in found if listed is not None)

    @property
    def vouches(self) -> bool:
        """See the port: a host that does not answer may still run jobs."""
        return False

    def create(self, machines: Sequence[Machine], pool: Pool) -> None:
        """See the port; a host that holds another machine has no capacity."""
        for machine in machines:
            self._create(machine, pool)

    def _create(self, machine: Machine, pool: Pool) -> None:
        host = machine.zone
        if host not in self._pool.zones:
            raise NoCapacityError(f"pool {pool.name} has no host {host!r} any more")
        wanted = {
            "do": "create",
            "machine": machine.name,
            "pool": pool.name,
            "zone": host,
            "resources": dict(pool.resources.items()),
            "labels": dict(pool.labels),
        }
        answers, errors = self._ask((host,), wanted)
        if errors:
            raise errors[host]
        busy = answers[host].get("busy")
        if busy:
            raise NoCapacityError(f"host {host} still holds machine {str(busy)[:100]}")

    def delete(self, name: str) -> None:
        """See the port; every host is asked, for none else knows where it is."""
        answers, errors = self._ask(self._pool.zones, {"do": "delete", "machine": name})
        is_known = any(answer.get("known") is True for answer in answers.values())
        if errors and not is_known:
            raise next(iter(errors.values()))

    def _listed(self, host: str, said: Mapping[str, object]) -> Listed | None:
        """One machine as a host tells of it; None where it is none of this pool."""
        name = str(said.get("name"))
        state = next((each for each in get_args(State) if each == said.get("state")), None)
        if state is None or parse_machine(name, self._pool.name) is None:
            return None
        return Listed(name=name, pool=self._pool.name, state=state, zone=host)

    def _ask(
        self, hosts: Sequence[str], wanted: Mapping[str, object]
    ) -> tuple[dict[str, dict[str, Any]], dict[str, ProviderUnavailableError]]:
        """Ask several hosts at once; their answers, and why others gave none."""
        data = json.dumps({**self._about, **wanted}).encode()
        line = self._line("exec {python} -m bastion.provider.remote")
        outcomes = self._run(hosts, line, data, timeout_s=_CALL_S)
        missing = tuple(host for host, (code, _, _) in outcomes.items() if code == _MISSING)
        if missing:
            installed = self._run(missing, self._installation(), self._archive(), _INSTALL_S)
            whole = tuple(host for host, (code, _, _) in installed.items() if code == 0)
            outcomes |= installed
            outcomes |= self._run(whole, line, data, timeout_s=_CALL_S)
        answers: dict[str, dict[str, Any]] = {}
        errors: dict[str, ProviderUnavailableError] = {}
        for host, (code, out, error) in outcomes.items():
            try:
                answers[host] = _answer(host, code, out, error)
            except ProviderUnavailableError as unavailable:
                errors[host] = unavailable
        return answers, errors

    def _run(
        self, hosts: Sequence[str], line: str, data: bytes, timeout_s: float
    ) -> dict[str, tuple[int, bytes, bytes]]:
        """Run a command line on several hosts at once; status, output and errors of each."""
        begun = {
            host: subprocess.Popen(
                [*self._ssh, "--", host, line],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for host in hosts
        }
        outcomes = {}
        for host, process in begun.items():
            try:
                out, error = process.communicate(data, timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                out, error = b"", f"no answer within {timeout_s:g} s".encode()
            outcomes[host] = process.returncode, out[:_MAX_ANSWER_BYTES], error
        return outcomes

    def _line(self, command: str) -> str:
        """A command line for a host's shell that runs `command` with this build."""
        folder, build = shlex.quote(self._folder), shlex.quote(self._build)
        return (
            f"cd && cd {folder} 2>/dev/null && [ -e builds/{build}/whole ] || exit {_MISSING};"
            f' PYTHONPATH="$PWD/builds/{build}"; export PYTHONPATH; '
            + command.format(python=self._interpreter)
        )

    @property
    def _interpreter(self) -> str:
        if self._python:
            return shlex.quote(self._python)
        digest = hashlib.sha256("\n".join(self._wanted).encode()).hexdigest()[:16]
        return f"python/{digest}/bin/python"

    def _installation(self) -> str:
        """A command line that installs this build from an archive on its standard input."""
        folder, build = shlex.quote(self._folder), shlex.quote(self._build)
        lines = [
            f"set -e; umask 077; cd; mkdir -p {folder}; cd {folder}; mkdir -p builds python",
            "new=builds/.new-$$; rm -rf $new; mkdir $new; tar -xzf - -C $new; : >$new/whole",
        ]
        if not self._python:
            place = self._interpreter.removesuffix("/bin/python")
            wanted = " ".join(map(shlex.quote, self._wanted))
            lines.append(
                f"[ -e {place}/whole ] || {{ python3 -m venv {place};"
                f" {place}/bin/python -m pip install --quiet --no-input {wanted} >&2;"
                f" : >{place}/whole; }}"
            )
        lines.append(f"[ -e builds/{build} ] || mv $new builds/{build}; rm -rf $new")
        return "; ".join(lines)

    def _archive(self) -> bytes:
        top = Path(__file__).resolve().parents[2]
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for path in sorted(path for room in _ROOMS for path in (top / room).rglob("*.py")):
                archive.add(path, arcname=str(path.relative_to(top)))
        return packed.getvalue()


def _answer(host: str, code: int, out: bytes, error: bytes) -> dict[str, Any]:
    """
    What a host answered.

    Raises:
        ProviderUnavailableError: Nothing that could be understood.
    """
    lines = error.decode("utf-8", "replace").strip().splitlines()
    why = lines[-1][:500] if lines else f"its command ended with {code}"
    if code == 0:
        try:
            said = json.loads(out)
        except (ValueError, RecursionError):
            said, why = None, "it answers what is no JSON"
        if isinstance(said, dict) and "error" not in said:
            return said
        if isinstance(said, dict):
            why = str(said["error"])[:500]
    raise ProviderUnavailableError(f"host {host}: {why}")


def _wanted(root_url: str) -> tuple[str, ...]:
    """What an agent needs beside Python, as pip is told, for a bucket of that kind."""
    extra = {"gs": "gcp", "s3": "aws"}.get(root_url.partition("://")[0], "")
    found = []
    for line in requires("bastion-orchestrator") or ():
        name, _, marker = line.partition(";")
        if not marker or (extra and f"'{extra}'" in marker.replace('"', "'")):
            found.append(name.strip())
    return tuple(sorted(found))
