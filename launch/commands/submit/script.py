"""Run a user's script that submits launches itself, as Python would run it."""

from __future__ import annotations

import os
import re
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

from launch import exits
from launch.errors import UsageError
from launch.grammar.unknown_words import submits
from launch.screen.notes import note, tell
from launch.session import Session
from quota.pattern import pattern

_IMPORTS_CLUSTERFUDGE = pattern(rb"^(import|from) clusterfudge\b", re.MULTILINE)


def run_script(session: Session, *, given: str) -> int:
    """
    Run the script on the command line with the bastion in its environment; return its exit code.

    A script that succeeds but submits nothing was most likely meant to be the job.

    Args:
        session: Names the script as its first source.
        given: The given flags that describe a job, which a script must set itself.

    Raises:
        UsageError: There is no such file, a flag describes the job, or the script imports
            Clusterfudge's own package, which is not installed.
    """
    import subprocess
    import tempfile

    from bastion.client.submit.launch_file import beside
    from bastion.client.submit.submission_log import VARIABLE
    from bastion.profile import ENVIRONMENT

    script = Path(session.args.source[0])
    if not script.is_file():
        hint = f"give a command after --: bastion launch -- {script}"
        raise UsageError(f"no file {str(script)!r}", hint=beside(script) or hint)
    if given:
        raise UsageError(
            f"{given}: {script} submits its launches itself and sets this", hint=_meant(script)
        )
    if _IMPORTS_CLUSTERFUDGE.search(script.read_bytes()) and not find_spec("clusterfudge"):
        raise UsageError(
            f"{script} imports clusterfudge, which is not installed here",
            hint="change that line to: from bastion.compat import clusterfudge",
        )
    profile = session.profile
    told = {ENVIRONMENT[key]: getattr(profile, key) for key in ENVIRONMENT if getattr(profile, key)}
    arguments = [*session.args.source[1:], *(session.args.command or ())]
    if not submits(script):
        note(f"note: {script} now runs on this machine; {_meant(script, *arguments)}")
    with tempfile.NamedTemporaryFile(prefix="bastion-submitted-") as log:
        environment = dict(os.environ) | told | {VARIABLE: log.name}
        words = [sys.executable, str(script), *arguments]
        code = subprocess.run(words, env=environment, check=False).returncode
        is_submitted = Path(log.name).stat().st_size > 0
    if code == 0 and not is_submitted:
        tell(f"{script} ran on this machine and submitted nothing", _meant(script, *arguments))
        return exits.FAILED
    return exits.of_program(code)


def not_followed(script: str, *arguments: str) -> UsageError:
    """Return the error of `bastion run SCRIPT`: it submits itself, or was meant to be the job."""
    words = shlex.join([script, *arguments])
    if not Path(script).exists():
        return UsageError(
            f"run: {script}: no such file", hint="a command follows --: bastion run -- COMMAND"
        )
    if submits(Path(script)):
        return UsageError(
            f"run: {script} submits its launches itself", hint=f"bastion launch {words}"
        )
    return UsageError(
        f"run: {script} is not a job file", hint=f"bastion run --code=. -- python3 {words}"
    )


def _meant(script: Path, *arguments: str) -> str:
    words = " ".join(["python3", str(script), *arguments])
    return f"to run it as a job: bastion launch --code=. -- {words}"
