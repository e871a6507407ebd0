"""A pool of your own hosts, from an empty folder to a gang on both."""

from __future__ import annotations

import http.cookiejar
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from bastion.records.keys import layout
from tests.end_to_end.admin_files import QUOTA
from tests.end_to_end.programs import Programs, until
from tests.end_to_end.roots import folder_root
from tests.rigs.limits import killed
from tests.servers.sshd import hosts, needs_sshd

pytestmark = [pytest.mark.end_to_end, needs_sshd]

CONFIG = """
[pools.own]
provider = "ssh"
hosts = ["gpu1", "gpu2"]
resources = {{ h100 = 8 }}
idle_timeout = "{idle}"
options = {{ ssh_config = "{ssh_config}", python = "{python}" }}
"""


@pytest.fixture
def own(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Programs]:
    """Run a bastion with two fresh hosts; the idle time of machines can be given."""
    idle = getattr(request, "param", "10m")
    with hosts(tmp_path, "gpu1", "gpu2") as ssh_config, folder_root(tmp_path) as place:
        place.store.create(layout.QUOTA, QUOTA.encode())
        config = CONFIG.format(ssh_config=ssh_config, python=sys.executable, idle=idle)
        place.store.create(layout.CONFIG, config.encode())
        on = Programs(tmp_path, place)
        try:
            on.serve()
            # A first launch may be answered before there is a view.
            until(
                lambda: any(place.store.list(layout.view("status"))), "the first view is published"
            )
            yield on
        finally:
            on.stop_everything()
            sys.stdout.write(on.served)


def test_a_gang_runs_on_hosts_of_ones_own(own: Programs) -> None:
    """Each host gets Bastion and one machine; a killed bastion finds both again."""
    line = "echo $BASTION_REPLICA_INDEX of $BASTION_REPLICA_COUNT in $BASTION_OUTPUT_DIR"
    gang = ("--replicas=2", "--resources=h100=8", "--project_id=red", "--shell")
    ran = own.run("run", *gang, "--", line)
    said = sorted(ran.stdout.splitlines())
    assert [text.split(" in ")[0] for text in said] == ["0 of 2", "1 of 2"]
    assert {text.split("/.bastion/")[0].rsplit("/", 1)[1] for text in said} == {"gpu1", "gpu2"}
    before = own.json("machines")["machines"]
    assert sorted(machine["zone"] for machine in before) == ["gpu1", "gpu2"]
    (serve,) = own.processes("serve")
    serve.kill()
    own.serve()
    assert own.run("run", *gang, "--", "echo", "again").stdout == "again\nagain\n"
    after = own.json("machines")["machines"]
    assert [machine["name"] for machine in after] == [machine["name"] for machine in before]


def test_a_host_that_comes_back_goes_on(own: Programs) -> None:
    """Jobs on a host whose sshd is away continue, and new ones start on reachable hosts."""
    long = own.run("launch", "-q", "--resources=h100=8", "--", "sleep", "3").stdout.strip()
    until(lambda: own.client.status().counts.get("running"), "one runs")
    (server, *_) = own.processes("sshd", "gpu1/sshd_config")
    server.suspend()
    try:
        assert own.wait(long).state == "succeeded"
        ran = own.run("run", "--resources=h100=8", "--", "echo", "here")
        assert ran.stdout == "here\n"
    finally:
        server.resume()


@pytest.mark.parametrize("own", ["1s"], indirect=True)
def test_a_host_is_given_back_as_it_was(own: Programs) -> None:
    """It is refused while in use; once no pool names it, nothing of Bastion stays or returns."""
    assert own.run("run", "--resources=h100=8", "--", "echo", "here").stdout == "here\n"
    (zone,) = {each["zone"] for each in own.json("machines")["machines"]}
    home = own.folder / zone / ".bastion"
    refused = own.run("machine", "uninstall", zone, check=False)
    assert (refused.returncode, refused.stderr) == (
        2,
        f"error: {zone} is a host of pool own, and would be installed again\n"
        "hint: first take it out of hosts in config/bastion.toml, or out of its inventory\n",
    )
    stands = own.place.store.read(layout.CONFIG)
    assert stands is not None
    other = stands.data.replace(f'"{zone}", '.encode(), b"").replace(f', "{zone}"'.encode(), b"")
    own.place.store.swap(layout.CONFIG, other, if_version=stands.version)
    until(lambda: not own.json("machines")["machines"], "its machine leaves the records")
    gone = own.run("machine", "uninstall", zone)
    assert gone.stderr == f"{zone}: nothing of Bastion is left there\n"
    assert not home.exists()
    assert own.run("run", "--resources=h100=8", "--", "echo", "there").stdout == "there\n"
    assert not home.exists()


def test_a_shell_is_where_the_job_runs(own: Programs) -> None:
    """`bastion ssh` runs a command on a replica's host, and reports what it cannot do."""
    job = own.run("launch", "-q", "--resources=h100=8", "--", "sleep", "1000").stdout.strip()
    until(lambda: own.client.status().counts.get("running"), "it runs")
    (zone,) = (each["zone"] for each in own.json("machines")["machines"] if each["jobs"])
    there = own.run("ssh", job, "--", "sh", "-c", "echo it is $HOME")
    assert there.stdout.endswith(f"/{zone}\n")
    refused = own.run("ssh", f"{job}/1", check=False)
    assert (refused.returncode, refused.stderr) == (
        103,
        f"error: {job} has no replica 1; it has 1, counted from 0\n",
    )


def test_a_notebook_is_reached_through_a_tunnel(own: Programs) -> None:
    """`bastion notebook` prints where Jupyter is, and only its password opens it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        here = free.getsockname()[1]
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    words = ("--app=server", f"--port={here}", f"--env=PATH={path}", "--resources=h100=8")
    notebook = subprocess.Popen(
        [*own.command, "notebook", *words],
        cwd=own.project,
        env=own.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert notebook.stdout is not None
    assert notebook.stderr is not None
    try:
        url = notebook.stdout.readline().strip()
        said = next(line for line in notebook.stderr if line.startswith("password: "))
        password = said.removeprefix("password: ").strip()
        assert url == f"http://localhost:{here}/"
        until(lambda: asked(here) == 403, "it answers, and wants a password")
        assert asked(here, "wrong") == 403
        assert asked(here, password) == 200
    finally:
        notebook.terminate()
        notebook.wait(60)
        killed(notebook)
    assert own.client.status().counts.get("running") == 1
    bucket = (each for each in own.folder.rglob("*") if each.is_file())
    assert not any(password.encode() in each.read_bytes() for each in bucket)


def asked(port: int, password: str = "") -> int:
    """Return Jupyter's status for a request for its files with `password`; 0: no answer."""
    cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    browser = urllib.request.build_opener(cookies)
    url = f"http://localhost:{port}"
    try:
        if password:
            browser.open(f"{url}/login", timeout=10).read()
            token = next(each.value for each in cookies.cookiejar if each.name == "_xsrf")
            form = urllib.parse.urlencode({"password": password, "_xsrf": token}).encode()
            try:
                browser.open(f"{url}/login", form, timeout=10).read()
            except urllib.error.HTTPError as refused:
                assert refused.code == 401
        return int(browser.open(f"{url}/api/contents", timeout=10).status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
