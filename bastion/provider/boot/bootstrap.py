"""
The program that a start-up script carries: it installs this same build on a new machine.

Any Python from 3.7 on can run it, as a single file with only the standard library; `bucket_call`
becomes a part of that file. The script leaves out comments, docstrings and annotations, because EC2
accepts only 16 kB. The program reads `boot.json` and writes `agent`, the command of the agent.

    <folder>/boot.json             what this machine is
    <folder>/builds/<digest>/      the unpacked wheel: bastion, bundler, quota and launch
    <folder>/python/<digest>/      a Python with their requirements, unless an interpreter has them
    <folder>/tools/                uv, if the machine needs it and has none
    <folder>/steps.json            the steps, and how many seconds each took
    <folder>/agent                 the command that runs the agent
    <folder>/failed                why this machine cannot start; nothing more is tried
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.parse import urljoin, urlsplit
from urllib.request import urlopen

from bastion.provider.boot.bucket_call import keep, send

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    T = TypeVar("T")
    Said = Mapping[str, Any]

UV = "0.13.8"
TRIES = 6
"""Tries of a download: about a minute including the pauses between them."""
TEXT = 900
"""Reported characters of an output: they are stored in the state of the bastion."""


def main(folder: str) -> int:
    """Install Bastion below `folder`, and write its command; return 75 if a retry may help."""
    os.chdir(folder)
    with open("boot.json") as file:
        said: Said = json.load(file)
    machine = os.environ["BASTION_MACHINE"]
    began = time.monotonic()
    steps: list[tuple[str, float]] = []

    def did(step: str) -> None:
        nonlocal began
        steps.append((step, round(time.monotonic() - began, 3)))
        began = time.monotonic()

    step = "download"
    try:
        build = downloaded(said)
        did("downloaded")
        step = "install"
        python = interpreter(said, build)
        did("installed")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        text = tail(getattr(error, "output", None) or b"") or repr(error)
        log("%s failed: %s" % (step, text))
        try:
            if not said["bells"]:
                return 75
            key = "%s%s/000000-%012d.json" % (said["bells"], machine, int(time.time()))
            fact = {"kind": "boot_failed", "step": step, "text": text}
            send(said["root"], "PUT", key, json.dumps({"schema": 1, "facts": [fact]}).encode())
        except Exception as worse:  # noqa: BLE001 - it is tried again in any case
            log("it could not be told: %r" % worse)
        return 75
    keep("steps.json", json.dumps(steps))
    keep("current", build)
    own = ["--machine=" + machine, "--home=" + folder + "/home", "--boot=" + folder]
    what = said.get("run") or ["-m", "bastion", "agent", *said["agent"], *own]
    command = [python, "-P", *(word.replace("{folder}", folder) for word in what)]
    line = " ".join(map(shlex.quote, command))
    build = shlex.quote(os.path.join(folder, build))
    keep("agent", "PYTHONPATH=%s exec %s\n" % (build, line))
    return 0


def log(line: str) -> None:
    """Write a line to the boot log; a full disk loses the line and stops nothing."""
    with suppress(OSError):
        sys.stderr.write("bastion: %s\n" % line)


def downloaded(said: Said) -> str:
    """Return the folder of this build, which is downloaded if it is missing."""
    build: str = "builds/" + said["digest"]
    if not os.path.exists(build + "/whole"):
        data = again(lambda: send(said["root"], "GET", said["wheel"]))
        if hashlib.sha256(data).hexdigest() != said["digest"]:
            raise ValueError(
                "%s in the bucket does not match the digest in its name" % said["wheel"]
            )
        shutil.rmtree(build, ignore_errors=True)
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            packed.extractall(build)
        keep(build + "/whole", "")
    return build


def interpreter(said: Said, build: str) -> str:
    """Return the Python that runs Bastion: one that has its requirements, or a new one."""
    info = next(name for name in os.listdir(build) if name.endswith(".dist-info"))
    info = "%s/%s/" % (build, info)
    wanted = said.get("needs", "agent") + "-%s.txt" % urlsplit(said["root"]).scheme
    wanted, pins = info + wanted, info + "pins.txt"
    with open(wanted) as file, open(pins) as more:
        lines = file.read().split("\n")
        digest = hashlib.sha256("\n".join([*lines, more.read()]).encode()).hexdigest()[:16]
    named: str = said["python"]
    for python in filter(None, (named, sys.executable)):
        if has(python, lines):
            return python
    place = os.path.abspath("python/" + digest)
    python = place + "/bin/python"
    if os.path.exists(place + "/whole"):
        return python
    shutil.rmtree(place, ignore_errors=True)
    base = named or (sys.executable if sys.version_info >= (3, 11) else "")
    uv = shutil.which("uv", path=os.environ.get("PATH", "") + ":/root/.local/bin:tools")
    asked = ["-r", wanted, "-c", pins]
    if said["index_url"]:
        asked += ["--index-url", said["index_url"]]
    if said["wheelhouse"]:
        asked += ["--no-index", "--find-links", said["wheelhouse"]]
    if not uv and base and runs([base, "-c", "import ensurepip, venv"]):
        runs([base, "-m", "venv", place], must=True)
        run = [python, "-m", "pip", "install", "-q", "--no-input"]
        again(lambda: runs([*run, *asked], must=True))
    else:
        uv = uv or again(lambda: fetched_uv(said))
        run = [uv, "venv", "-q", "--python", base or ">=3.11", place]
        again(lambda: runs(run, must=True))
        again(lambda: runs([uv, "pip", "install", "-q", "--python", python, *asked], must=True))
    keep(place + "/whole", "")
    return python


def has(python: str, lines: list[str]) -> bool:
    """Whether an interpreter is recent enough and has every required distribution."""
    bounds = [re.match(r"([\w.-]+)[^>=]*(?:[>=]=([\w.]+))?", line) for line in lines if line]
    code = """
import json, re, sys
from importlib.metadata import version
n = lambda text: [int(d) for d in re.findall(r"\\d+", text)]
assert sys.version_info >= (3, 11)
for name, least in json.loads(sys.argv[1]):
    assert n(version(name)) >= n(least)
"""
    asked = json.dumps([(found[1], found[2] or "") for found in bounds if found])
    return runs([python, "-c", code, asked])


def fetched_uv(said: Said) -> str:
    """Return the program uv, from its wheel in the index."""
    machine = os.uname().machine
    page = (said["index_url"] or "https://pypi.org/simple").rstrip("/") + "/uv/"
    found = re.findall(r'href="([^"]+/uv-%s-[^"]+manylinux[^"]+)"' % re.escape(UV), text(page))
    link = next(each for each in found if machine in each)
    with urlopen(urljoin(page, link), timeout=60) as answer:
        data = answer.read()
    digest = re.search(r"#sha256=(\w+)", link)
    if digest and hashlib.sha256(data).hexdigest() != digest[1]:
        raise ValueError("%s is not what the index says" % link)
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        name = next(each for each in packed.namelist() if each.endswith("/scripts/uv"))
        os.makedirs("tools", exist_ok=True)
        with open("tools/uv.tmp", "wb") as file:
            file.write(packed.read(name))
    os.chmod("tools/uv.tmp", 0o700)
    os.replace("tools/uv.tmp", "tools/uv")
    return os.path.abspath("tools/uv")


def text(url: str) -> str:
    """Return the text of a page."""
    with urlopen(url, timeout=30) as answer:
        return bytes(answer.read()).decode()


def again(do: Callable[[], T]) -> T:
    """Repeat it until it works: a network may start late, and a token may not be ready yet."""
    tried = 0
    while True:
        try:
            return do()
        except (OSError, subprocess.CalledProcessError) as error:
            tried += 1
            final = isinstance(error, HTTPError) and error.code in (400, 405)
            if tried == TRIES or final:
                raise
            time.sleep(2**tried / 2)


def runs(command: Sequence[str], *, must: bool = False) -> bool:
    """Whether a command succeeds; with `must`, a failure is an error with the command's output."""
    out = subprocess.STDOUT
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=out)
    if must:
        done.check_returncode()
    return done.returncode == 0


def tail(output: bytes) -> str:
    """Return the last words of an output."""
    return output.decode("utf-8", "replace").strip()[-TEXT:]


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
