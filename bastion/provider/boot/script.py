"""
The start-up script of a machine: a shell script that gets a Python and runs the bootstrap.

A provider runs it as root at each boot; Slurm runs it as a user. It can run again at any time,
because it starts only what is not running. On a new machine it leads through `download`, `install`
and, in the agent, `setup` and the health gate, to the greeting.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping

from bastion.machine import Pool
from bastion.provider.boot.bare_program import bootstrap
from bastion.provider.boot.wheel import own_wheel
from bastion.records.keys import layout
from bastion.value import value

OPTIONS = ("python", "index_url", "wheelhouse", "folder")
"""
Pool options that every provider with a start-up script accepts: an interpreter on its machines, the
index or folder that Python packages come from, and the folder of the agent.
"""

FOLDER = "/var/lib/bastion"
HEARTBEAT_S = 300.0
"""
The provider reports when the machine dies, and the start-up script restarts a dead agent. This is
only for failures that neither detects. 1,000 machines ring three times a second.
"""
PERMIT_HEARTBEAT_S = 30.0
"""If the provider does not vouch for a machine, each bell of the machine renews its permit."""
_CLOUDS = {
    "gce": "gce",
    "gcp_tpu": "gce",
    "ec2": "ec2",
    "azure_vm": "azure",
    "slurm": "slurm",
    "kubernetes": "kubernetes",
}
"""Providers whose machines can see that they will be taken back, and the kind of each."""
_HALTS = {
    "gce": "shutdown -h now",
    "ec2": "shutdown -h now",
    "azure": "shutdown -h now",
    "slurm": "exit 1",
    "kubernetes": "exit 0",  # failed pods are started again
}
"""Command by which an orphan ends itself, by kind."""


@value
class Boot:
    """What a start-up script depends on, besides its pool."""

    root_url: str
    """The bucket that the agents serve."""
    bucket: str
    """The bucket's own name."""
    wheel: str
    """The key of the wheel that is installed."""
    digest: str
    """Its SHA-256, which also identifies the build."""
    stays: bool = False
    """Whether the script runs as long as the agent, as the command of a container must."""

    @classmethod
    def here(cls, root_url: str, bucket: str, *, stays: bool = False) -> Boot:
        """Return the boot of machines that run this same program."""
        wheel = own_wheel()
        key = layout.wheel(wheel.digest, wheel.name)
        return cls(root_url=root_url, bucket=bucket, wheel=key, digest=wheel.digest, stays=stays)


def startup_script(pool: Pool, boot: Boot, *, machine: str) -> str:
    """
    Return the script that makes a host of `pool` a machine; it runs as root at each boot.

    The folder of the machine is `/var/lib/bastion`, unless the pool's option `folder` or the
    environment variable `BASTION_BOOT_DIR` names another one.

    Args:
        pool: Describes its machines, and has options from `OPTIONS`.
        boot: The bucket and the build.
        machine: A shell command that prints the machine's name, such as `printf %s gpu-12-0`.
    """
    said = {
        "root": boot.root_url,
        "wheel": boot.wheel,
        "digest": boot.digest,
        "needs": "tpu" if pool.provider == "gcp_tpu" else "agent",
        "bells": f"{layout.BELLS}{pool.name}/",
        **{name: pool.options.get(name, "") for name in ("python", "index_url", "wheelhouse")},
        "setup": list(pool.setup),
        "health": {
            "devices": pool.watches_devices,
            "burn": pool.burn,
            "foreign": pool.respects_foreign,
        },
        "agent": _arguments(pool, boot),
    }
    folder = pool.options.get("folder", FOLDER)
    values = {
        "FOLDER": shlex.quote(folder),
        "PYTHON": shlex.quote(pool.options.get("python", "")),
        "POOL": shlex.quote(pool.name),
        "NAME": machine,
        "ORPHAN": f"{max(60, int(pool.orphan_timeout_s))}",
        "HALTS": shlex.quote(_HALTS.get(_CLOUDS.get(pool.provider, ""), "")),
        "STAYS": "yes" if boot.stays else "",
        "SAID": json.dumps(said, separators=(",", ":")),  # one line: it ends no here-document
        "BOOTSTRAP": bootstrap(*_parts(pool, boot)),
    }
    # In a single pass: an inserted text may itself look like a placeholder.
    return re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], _SCRIPT)


def cloud_init(script: str) -> str:
    """
    Return user data with which cloud-init runs `script` at every boot, not only at the first.

    Source: AWS re:Post, "How do I use user data to run a script at each restart of an instance";
    "Cloud-init support for virtual machines in Azure", which reads custom data as user data.
    """
    every_boot = "#cloud-config\ncloud_final_modules:\n- [scripts-user, always]\n"
    border = "bastion-boundary"
    parts = (("cloud-config", every_boot), ("x-shellscript", script))
    made = "".join(
        f'--{border}\nContent-Type: text/{kind}; charset="utf-8"\n\n{text}\n'
        for kind, text in parts
    )
    head = f'Content-Type: multipart/mixed; boundary="{border}"\nMIME-Version: 1.0\n\n'
    return f"{head}{made}--{border}--\n"


def _parts(pool: Pool, boot: Boot) -> Iterator[str]:
    """Yield the parts of the program that only some machines need."""
    if pool.provider == "kubernetes":
        yield "pod_role"
    if boot.root_url.startswith("az:"):
        yield "azure_call"


def _arguments(pool: Pool, boot: Boot) -> list[str]:
    resources = ",".join(f"{name}={units}" for name, units in pool.resources.items())
    given: Mapping[str, str] = {
        "root": boot.root_url,
        "pool": pool.name,
        "resources": resources,
        "keep_work_s": f"{pool.keep_work_s:g}",
        "run_as": pool.run_as,
        "build": boot.digest,
        "heartbeat_s": f"{PERMIT_HEARTBEAT_S if pool.permit_s else HEARTBEAT_S:g}",
        "permit_s": f"{pool.permit_s:g}" if pool.permit_s else "",
        "cloud": _CLOUDS.get(pool.provider, ""),
        "orphan_timeout_s": f"{pool.orphan_timeout_s:g}" if pool.provider in _CLOUDS else "",
    }
    labels = [f"--label={name}={text}" for name, text in pool.labels.items()]
    return [f"--{name}={text}" for name, text in given.items() if text] + labels


_SCRIPT = r"""#!/bin/sh
# Makes this host a machine of Bastion, and keeps the agent of the machine running.
set -u
umask 022
PATH="${PATH:-/usr/bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HOME="${HOME:-/root}"
dir="${BASTION_BOOT_DIR:-}"
[ -n "$dir" ] || dir=@FOLDER@
export PATH HOME dir
mkdir -p "$dir" && cd "$dir" || exit 1

name() {
@NAME@
}
export BASTION_MACHINE
tries=0
whole() {
  # A metadata server that did not answer leaves half a name.
  case "$1" in @POOL@-[0-9]*[0-9]) ;; *) return 1 ;; esac
}
until BASTION_MACHINE="$(name)" && whole "$BASTION_MACHINE"; do
  tries=$((tries + 1))
  [ "$tries" -lt 60 ] || { echo "bastion: this machine cannot find out its name" >&2; exit 1; }
  sleep 1
done

(umask 077 && cat >boot.json) <<'END'
@SAID@
END
cat >bootstrap.py <<'END'
@BOOTSTRAP@
END
cat >run.new <<'END'
cd "$dir" || exit 1
if command -v flock >/dev/null; then
  exec 9>run.lock
  flock -n 9 || exit 0
fi
halts=@HALTS@
halt_orphan() {
  # Only what a cloud made: a machine without an agent has nothing else that ends it.
  if [ -n "$halts" ]; then sleep @ORPHAN@ && $halts; fi
}
found() {
  for python in "$@"; do
    python="$(command -v "$python")" || continue
    "$python" -c "import sys; sys.exit(sys.version_info < $least)" && return 0
  done 2>/dev/null
  return 1
}
python_found() {
  least='(3, 11)'
  found @PYTHON@ python3.11 python3.12 python3.13 python3.14 python3 && return 0
  least='(3, 7)'
  found python3 python3.10 python3.9 python3.8 /usr/libexec/platform-python
}
if ! python_found; then
  echo "bastion: no Python found, so it is being installed"
  { apt-get -qq update && apt-get -qq -y install python3; } || yum -q -y install python3
fi
python_found || { echo "bastion: no Python can be installed"; halt_orphan; exit 1; }
end=$(($(date +%s) + @ORPHAN@))
until "$python" bootstrap.py "$dir" 9>&-; do
  [ "$(date +%s)" -lt "$end" ] || { halt_orphan; exit 1; }
  sleep 60
done
pause=1
rm -f failed
while :; do
  began="$(date +%s)"
  sh ./agent 9>&-
  code=$?
  [ ! -e left ] || exit 0
  [ ! -e failed ] || { halt_orphan; exit 1; }
  if [ "$(($(date +%s) - began))" -ge 60 ]; then
    pause=1
    end=$(($(date +%s) + @ORPHAN@))
  fi
  [ -z "$halts" ] || [ "$(date +%s)" -lt "$end" ] || halt_orphan
  echo "bastion: the agent ended with $code, and starts again in $pause s"
  sleep "$pause"
  [ "$pause" -ge 32 ] || pause=$((pause * 2))
done
END
mv run.new run
stays=@STAYS@
if [ -n "$stays" ]; then
  exec sh run
fi
if command -v setsid >/dev/null; then
  setsid sh run </dev/null >>boot.log 2>&1 &
else
  nohup sh run </dev/null >>boot.log 2>&1 &
fi
"""
