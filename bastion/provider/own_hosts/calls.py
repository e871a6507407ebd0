"""
Calls to your own hosts by OpenSSH: this same build is installed there, and answers one request.

Requests and answers are JSON objects of `bastion.provider.own_hosts.remote`.
"""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import subprocess
import tarfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from importlib.metadata import requires
from pathlib import Path
from threading import TIMEOUT_MAX
from typing import Any, cast

from bastion.errors import ProviderUnavailableError
from bastion.lane import ThreadLane
from bastion.provider.boot.wheel import EXTRAS
from bastion.provider.own_hosts.host_key import key_problem

_CONNECT_S = 10
_CALL_S = 60.0
"""Longest call: agents start and end within seconds."""
_LAST_S = 2.0
"""For the output of a call that was killed."""
_INSTALL_S = 600.0
"""Longest installation: wheels of several megabytes over a slow connection."""
_NOT_CONNECTED = 255
"""Exit status of OpenSSH itself."""
_NO_WAY = ("ssh: connect to host ", "ssh: Could not resolve hostname ")
"""Prefix of its last line if it never reached a host; otherwise it may have been cut off there."""
_BARE, _MISSING = 96, 97
"""Exit statuses of a host that has no build of ours, or not this one."""
_MAX_ANSWER_BYTES = 4 << 20
_AT_ONCE = 64
"""Simultaneous calls: each is an OpenSSH process and a thread that waits for it."""
_NOTHING = b'{"machines": []}'
_ROOMS = ("bastion", "bundler", "quota")
_PROGRAM, _AGENT = "bastion.provider.own_hosts.remote", "bastion.agent.main"
_CHECK = (
    "import sys; sys.version_info < (3, 11) and"
    ' sys.exit("its Python is %d.%d, and 3.11 or later is needed" % sys.version_info[:2])'
)


_Outcome = tuple[int, bytes, bytes]
"""Status, output and errors of one call."""


class UnreachedError(ProviderUnavailableError):
    """OpenSSH did not reach a host, so nothing was done there."""


class Hosts:
    """
    Hosts that one pool reaches in the same way.

    Args:
        about: Part of every request: among others the folder on a host, the bucket's root and the
            digest of this build.
        python: The interpreter on the hosts; empty: one is installed there.
        ssh: The command that connects; the host and a command line for its shell follow.
    """

    def __init__(self, about: Mapping[str, Any], *, python: str, ssh: Sequence[str]) -> None:
        self._about = about
        self._folder, self._build = str(about["folder"]), str(about["build"])
        self._python = python
        self._wanted = _wanted(str(about["root"]))
        self._installed: set[str] = set()
        """Hosts on which this build was found or installed."""
        self._by_hand = ssh
        self._ssh = (
            *ssh,
            *("-T", "-oBatchMode=yes", f"-oConnectTimeout={_CONNECT_S}"),
            *("-oServerAliveInterval=5", "-oServerAliveCountMax=3"),
            "-oStrictHostKeyChecking=yes",  # even if the user's own configuration is lax
        )

    def ask(
        self, hosts: Sequence[str], wanted: Mapping[str, object]
    ) -> tuple[dict[str, dict[str, Any]], dict[str, ProviderUnavailableError]]:
        """
        Call several hosts at the same time; return their answers, and why others gave none.

        This build is installed on a host without it. To list or delete, it is not installed on a
        host that had it before and is empty now, because an admin has removed everything there.
        """
        do, data = wanted["do"], json.dumps({**self._about, **wanted}).encode()
        outcomes = _on_each(hosts, lambda host: self._asked(host, do, data))
        answers: dict[str, dict[str, Any]] = {}
        errors: dict[str, ProviderUnavailableError] = {}
        for host, (code, out, error) in outcomes.items():
            try:
                answers[host] = _answer(host, self._by_hand, code, out, error)
                self._installed.add(host)
            except ProviderUnavailableError as unavailable:
                errors[host] = unavailable
        return answers, errors

    def _asked(self, host: str, do: object, data: bytes) -> _Outcome:
        """Return status, output and errors of one host; install this build there if necessary."""
        line = self._line(starts=do == "create")
        outcome = self._call(host, line, data, _CALL_S)
        if outcome[0] == _BARE and do in ("list", "delete") and host in self._installed:
            return 0, _NOTHING, b""
        if outcome[0] not in (_BARE, _MISSING):
            return outcome
        installed = self._call(host, self._installation(), self._archive, _INSTALL_S)
        return self._call(host, line, data, _CALL_S) if installed[0] == 0 else installed

    def remove(self, host: str) -> str:
        """
        Remove everything of ours from a host; return why it is kept, or empty.

        Raises:
            ProviderUnavailableError: Its current contents are unknown.
        """
        looked = f"cd && [ -e {shlex.quote(self._folder)} ] && echo yes || echo no"
        code, out, error = self._call(host, looked, b"", _CALL_S)
        if (code, out.split()[-1:]) == (0, [b"no"]):
            return ""
        if code != 0:
            _answer(host, self._by_hand, code, out, error)
        answers, errors = self.ask((host,), {"do": "remove"})
        if errors:
            raise errors[host]
        answer = answers[host]
        if busy := answer.get("busy"):
            return f"it still holds machine {str(busy)[:100]} of {str(answer.get('owner'))[:500]}"
        return str(answer.get("kept", ""))[:500]

    def _call(self, host: str, line: str, data: bytes, timeout_s: float) -> _Outcome:
        process = subprocess.Popen(
            # The login's own shell may be fish or tcsh, whose syntax differs from sh.
            [*self._ssh, "--", host, f"exec /bin/sh -c {shlex.quote(line)}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            out, error = process.communicate(data, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=_LAST_S)  # its proxy may hold its pipes open
            out, error = b"", f"no answer within {timeout_s:g} s".encode()
        return process.returncode, out[:_MAX_ANSWER_BYTES], error

    def _line(self, *, starts: bool) -> str:
        """
        Return a command line for sh that runs this build's program on a host.

        If that fails because its Python lacks something, the last line that is printed says what.
        If it is our own Python, such as after an upgrade of the system, it is installed again.

        Args:
            starts: Whether an agent is to be started, which needs more than the program does.
        """
        folder, build = shlex.quote(self._folder), shlex.quote(self._build)
        python = self._interpreter
        checked = f"{python} -c {shlex.quote(_CHECK)} && {python} -c 'import {_AGENT}'"
        first = f"{checked} && " if starts else ""
        broken = "" if self._python else f" || rm -f {self._own_python}/whole"
        return (
            f"cd && cd {folder} 2>/dev/null && [ -e builds ] || exit {_BARE};"
            f" for each in {self._in_use}; do [ -e $each ] || exit {_MISSING}; done;"
            f" touch -c {self._in_use} 2>/dev/null;"
            f' PYTHONPATH="$PWD/builds/{build}"; export PYTHONPATH;'
            f" {first}{python} -m {_PROGRAM} && exit; {checked}{broken}; exit 1"
        )

    @property
    def _in_use(self) -> str:
        """The files that record when this build and its Python were last used."""
        own = "" if self._python else f" {self._own_python}/whole"
        return f"builds/{shlex.quote(self._build)}/whole{own}"

    @property
    def _interpreter(self) -> str:
        return shlex.quote(self._python) if self._python else f"{self._own_python}/bin/python"

    @property
    def _own_python(self) -> str:
        digest = hashlib.sha256("\n".join(self._wanted).encode()).hexdigest()[:16]
        return f"python/{digest}"

    def _installation(self) -> str:
        """Return a command line that installs this build from an archive on its standard input."""
        folder, build = shlex.quote(self._folder), shlex.quote(self._build)
        lines = [
            f"set -e; umask 077; cd; mkdir -p {folder}; cd {folder}; mkdir -p builds python",
            "new=builds/.new-$$; trap 'rm -rf $new' EXIT; mkdir $new",
            # Of many lines, the first ones give the cause: a full disk, or a missing package.
            'told() { said=$("$@" 2>&1) || { echo $(echo "$said" | head -n 3) >&2; exit 1; }; }',
            "told tar -xzf - -C $new; : >$new/whole",
        ]
        if not self._python:
            place = self._own_python
            wanted = " ".join(map(shlex.quote, self._wanted))
            lines.append(
                f"[ -e {place}/whole ] || {{ python3 -c {shlex.quote(_CHECK)};"
                f" told python3 -m venv --clear {place};"
                f" {place}/bin/python -m pip install --quiet --no-input {wanted} >&2;"
                f" : >{place}/whole; }}"
            )
        lines.append(f"[ -e builds/{build} ] || mv $new builds/{build}")
        return "; ".join(lines)

    @cached_property
    def _archive(self) -> bytes:
        top = Path(__file__).resolve().parents[3]
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for path in sorted(path for room in _ROOMS for path in (top / room).rglob("*.py")):
                archive.add(path, arcname=str(path.relative_to(top)))
        return packed.getvalue()


def _on_each(hosts: Sequence[str], call: Callable[[str], _Outcome]) -> dict[str, _Outcome]:
    """Call all hosts at the same time: one that hangs delays no answer and no installation."""
    lane = ThreadLane("ssh", workers=_AT_ONCE)  # its threads do not keep a program from ending
    for host in hosts:
        lane.submit(host, partial(call, host))
    lane.settle(TIMEOUT_MAX)  # each call has its own limit
    lane.close()
    found = {done.key: done for done in lane.collect()}
    for done in found.values():
        if done.error is not None:
            raise done.error
    return {host: cast("_Outcome", found[host].result) for host in hosts}


def _answer(host: str, ssh: Sequence[str], code: int, out: bytes, error: bytes) -> dict[str, Any]:
    """
    Return a host's answer.

    Raises:
        ProviderUnavailableError: The answer is not understood.
        UnreachedError: The host was not reached.
    """
    told = error.decode("utf-8", "replace").strip()
    printed = out.decode("utf-8", "replace").strip()
    ended = f"its command ended with {code}"
    if printed and not told:  # for example from a disabled login
        ended += f": {printed.splitlines()[-1]}"
    why = (told.splitlines()[-1] if told else ended)[:500]
    if code == _NOT_CONNECTED and why.startswith(_NO_WAY):
        raise UnreachedError(f"host {host}: {why}")
    why = key_problem(shlex.join((*ssh, host)), told) or why
    if code == 0:
        try:
            said = json.loads(out.rpartition(b"\n")[2])  # the login shell may greet before it
        except (ValueError, RecursionError):
            said, why = None, f"its answer is not JSON: {printed[-200:]!r}"
        if isinstance(said, dict) and "error" not in said:
            return said
        if isinstance(said, dict):
            why = str(said["error"])[:500]
    raise ProviderUnavailableError(f"host {host}: {why}")


def _wanted(root_url: str) -> tuple[str, ...]:
    """Return what an agent needs besides Python, as pip requirements, for a bucket of that kind."""
    extra = EXTRAS.get(root_url.partition("://")[0], "")
    found = []
    for line in requires("bastion-orchestrator") or ():
        name, _, marker = line.partition(";")
        if not marker or (extra and f"'{extra}'" in marker.replace('"', "'")):
            found.append(name.strip())
    return tuple(sorted(found))
