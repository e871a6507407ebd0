"""What the bastion's VM runs at each boot: `bastion serve`, restarted when it ends. Pure."""

from __future__ import annotations

import json
import re
import shlex

from bastion.provider.boot.bare_program import bootstrap
from bastion.vm.bastion_vm import BastionVm

FOLDER = "/var/lib/bastion-serve"

LOG_BYTES, KEPT_BYTES = 256 << 20, 16 << 20
"""Longest `serve.log`, and what stays of one that is longer: weeks of a busy bastion, and days."""


def startup_script(vm: BastionVm) -> str:
    """
    Return the script of `vm`, which runs as root at each boot and can run again at any time.

    It ends immediately, and what it started continues. `BASTION_BOOT_DIR` names another folder.
    """
    serve = ["serve", f"--root={vm.root_url}", f"--name={vm.name}"]
    serve += [f"--quota={vm.quota_url}"] if vm.quota_url else []
    serve += [f"--metrics_port={vm.metrics_port}"] if vm.metrics_port is not None else []
    serve += [f"--metrics_host={vm.metrics_host}"] if vm.metrics_host else []
    said = {
        "root": vm.root_url,
        "wheel": vm.wheel,
        "digest": vm.digest,
        "needs": "bastion",
        "run": ["-m", "launch.cli", *serve, "--machines_dir={folder}/machines"],
        **dict.fromkeys(("python", "index_url", "wheelhouse", "bells"), ""),
    }
    values = {
        "FOLDER": FOLDER,
        "SAID": json.dumps(said, separators=(",", ":")),
        "BOOTSTRAP": bootstrap(),
        "IMAGE": shlex.quote(vm.image),
        "REGISTRY": shlex.quote(vm.image.partition("/")[0] if "/" in vm.image else ""),
        "SERVE": shlex.join(serve),
        "MOST": str(LOG_BYTES),
        "KEPT": str(KEPT_BYTES),
    }
    begin = _CONTAINER if vm.image else _WHEEL
    return re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], _SCRIPT.replace("@BEGIN@", begin))


_CONTAINER = r"""
if ! command -v docker >/dev/null; then
  { yum -q -y install docker || { apt-get -qq update && apt-get -qq -y install docker.io; }; }
  systemctl start docker || service docker start
fi
image=@IMAGE@
registry=@REGISTRY@
# Of the folders of Container-Optimized OS root's home cannot be written, and a login is kept there.
HOME="$dir"
login() {
  case "$registry" in
    *.dkr.ecr.*.amazonaws.com)
      region="${registry#*.dkr.ecr.}"
      aws ecr get-login-password --region "${region%%.*}" |
        docker login --username AWS --password-stdin "$registry" ;;
    *.pkg.dev | *gcr.io)
      docker-credential-gcr configure-docker --registries="$registry" ;;
  esac
}
pulled=
serve() {
  # At each boot: the tag may name a newer image by now. Without the registry the old one runs.
  if [ -z "$pulled" ]; then
    login
    if docker pull "$image" >/dev/null; then pulled=yes; fi
  fi
  docker image inspect "$image" >/dev/null || return 1
  docker rm --force bastion >/dev/null 2>&1
  # Its lines are in serve.log: a second copy would grow without limit.
  docker run --rm --name bastion --log-driver none --network host "$image" @SERVE@
}
"""

_WHEEL = r"""
(umask 077 && cat >boot.json) <<'END'
@SAID@
END
cat >bootstrap.py <<'END'
@BOOTSTRAP@
END
export BASTION_MACHINE=bastion
serve() {
  for python in python3.11 python3.12 python3.13 python3; do
    if command -v "$python" >/dev/null; then break; fi
  done
  "$python" bootstrap.py "$dir" 9>&- && sh ./agent 9>&-
}
"""

_SCRIPT = r"""#!/bin/sh
# Keeps the bastion of a bucket running on this VM.
set -u
umask 022
PATH="${PATH:-/usr/bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HOME="${HOME:-/root}"
dir="${BASTION_BOOT_DIR:-@FOLDER@}"
export PATH HOME dir
mkdir -p "$dir" && cd "$dir" || exit 1
cat >run.new <<'RUN'
cd "$dir" || exit 1
exec 9>run.lock
flock -n 9 || exit 0
@BEGIN@
bound_log() {
  # The bucket has all lines, also those that are written meanwhile and are lost here.
  while :; do
    if [ "$(wc -c <serve.log)" -gt @MOST@ ]; then
      tail -c @KEPT@ serve.log >serve.tail && : >serve.log && cat serve.tail >>serve.log
      rm -f serve.tail
    fi
    sleep 3600
  done
}
bound_log 9>&- &
pause=1
while :; do
  began="$(date +%s)"
  serve
  echo "bastion: it ended with $?, and starts again in $pause s"
  [ "$(($(date +%s) - began))" -lt 60 ] || pause=1
  sleep "$pause"
  [ "$pause" -ge 32 ] || pause=$((pause * 2))
done
RUN
mv run.new run
setsid sh run </dev/null >>serve.log 2>&1 &
"""
