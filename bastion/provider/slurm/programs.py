"""Slurm's own programs, and what their failures mean."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from bastion.errors import NoCapacityError, ProviderRefusedError, ProviderUnavailableError
from bastion.provider.agent_environment import agent_environment

CALL_S = 60.0
"""`sbatch` and `squeue` retry a busy controller for some time before they give up."""
_OF_THIS_HOST = ("TMPDIR", "PYTHONPATH")
"""Variables of the bastion that may be meaningless on a node."""
# Source: slurm_errno.c of Slurm 22.05, and `sbatch`, which retries some of them.
_UNREACHED = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Zero Bytes were transmitted or received",
    "Slurm temporarily unable to accept job",
    "temporarily unavailable",
    "Connection refused",
    "Communication connection failure",
    "Slurm backup controller in standby mode",
    "Protocol authentication error",
    "Munge",
)
_LIMITS = (
    "Job violates accounting/QOS policy",
    "Job/step already exceeded a limit",
    "Reached limit",
)


_HEADS = (
    *("sbatch: ", "squeue: ", "sinfo: ", "scancel: ", "scontrol: ", "error: ", "fatal: "),
    *("Batch job submission failed: ", "allocation failure: "),
)
"""Prefixes of its programs' lines, in this order."""


class Programs:
    """
    `sbatch`, `squeue`, `sinfo`, `scancel` and `scontrol`, as this user runs them.

    Args:
        environ: The bastion's own variables. A Slurm job gets those of them that agents get.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._env = {
            name: text
            for name, text in agent_environment(environ).items()
            if name not in _OF_THIS_HOST
        }
        self._env |= {name: text for name, text in environ.items() if name == "SLURM_CONF"}
        self._env.setdefault("PATH", os.defpath)

    def run(self, *argv: str, text: str = "", about: str = "") -> str:
        """
        Return the output of a program.

        Args:
            argv: The program and its arguments.
            text: Its input.
            about: What is being done, for errors.

        Raises:
            NoCapacityError: A limit of the account is reached.
            ProviderRefusedError: It is not installed, or a setting is wrong.
            ProviderUnavailableError: The controller does not answer; the outcome is unknown.
        """
        what = f"{argv[0]} for {about}" if about else argv[0]
        try:
            done = self.call(argv, text)
        except FileNotFoundError as error:
            raise ProviderRefusedError(
                f"{argv[0]} is not installed here; a pool of provider slurm calls it",
                hint="install Slurm's client programs on the bastion's host",
            ) from error
        except subprocess.TimeoutExpired as error:
            told = f"{what} has not answered within {CALL_S:g} s"
            raise ProviderUnavailableError(told) from error
        except OSError as error:
            raise ProviderUnavailableError(f"{what} cannot be run: {error}") from error
        if done.returncode == 0:
            return done.stdout
        raise _failure(what, done.stderr or done.stdout, done.returncode)

    def call(self, argv: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
        """
        Run a program to its end.

        Raises:
            OSError: It cannot be run.
            subprocess.TimeoutExpired: It has not ended.
        """
        return subprocess.run(
            argv,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=CALL_S,
            env=self._env,
            cwd="/",
            check=False,
        )


def _failure(
    what: str, said: str, code: int
) -> NoCapacityError | ProviderRefusedError | ProviderUnavailableError:
    told = f"{what}: {_words(said) or f'it ended with {code}'}"
    if any(each in said for each in _UNREACHED):
        return ProviderUnavailableError(told)
    if any(each in said for each in _LIMITS):
        return NoCapacityError(told, is_limit=True)
    return ProviderRefusedError(told)


def _words(said: str) -> str:
    """Return the last line, which gives the reason, without the name of the program."""
    lines: Sequence[str] = said.strip().splitlines()
    last = lines[-1] if lines else ""
    for head in _HEADS:
        last = last.removeprefix(head)
    return last[:500]
