"""The ways in to machines: which program a user's own machine runs."""

from __future__ import annotations

import json
import shlex

import pytest

from bastion.errors import NotFoundError
from bastion.machine import Pool
from bastion.provider.way_in import Target, WayIn, way_in
from quota.amounts import NOTHING


def way(provider: str, machine: str = "gpu-7-0", zone: str = "", **options: str) -> WayIn:
    """Return the way in to one machine, for a user at the host `desk`."""
    pool = Pool(name="gpu", provider=provider, resources=NOTHING, max_machines=1, options=options)
    target = Target(machine=machine, zone=zone, hostname="far", address="10.1.2.3")
    return way_in(target, pool, bucket="b1", host_here="desk")


def test_a_host_of_ones_own_is_reached_by_openssh() -> None:
    """The host has the pool's name of it, with the pool's configuration."""
    found = way("ssh", zone="root@gpu1", ssh_config="/etc/hosts.conf")
    assert found.interactive == ("ssh", "-F", "/etc/hosts.conf", "-t", "root@gpu1")
    assert found.running("a b")[-3:] == ("root@gpu1", "--", "a b")
    assert found.forwarding(16006, 6006)[-3:] == ("-L", "16006:localhost:6006", "root@gpu1")


def test_a_local_machine_is_here_or_on_its_bastions_host() -> None:
    """A local machine of this host needs no way in; one of another host is reached by OpenSSH."""
    assert way("local").interactive == ("ssh", "-t", "far")
    pool = Pool(name="gpu", provider="local", resources=NOTHING, max_machines=1)
    target = Target(machine="gpu-7-0", zone="", hostname="desk", address="127.0.0.1")
    here = way_in(target, pool, bucket="b1", host_here="desk")
    assert here.running("echo $HOME") == ("/bin/sh", "-c", "echo $HOME")
    assert here.forwarding(1, 2) == ()


def test_googles_machines_are_reached_by_gcloud() -> None:
    """A VM is reached through the identity proxy; a host of a slice by its number in the slice."""
    vm = way("gce", zone="us-central1-a", project="lab")
    named = ("bastion-b1-gpu-7-0", "--zone=us-central1-a", "--project=lab")
    assert vm.interactive == ("gcloud", "compute", "ssh", *named, "--tunnel-through-iap")
    assert vm.running("a b")[-2:] == ("--command", "a b")
    host = way("gcp_tpu", machine="gpu-7-0-h3", zone="us-central2-b")
    assert host.interactive[4:] == (
        *("ssh", "bastion-b1-gpu-7-0", "--worker=3"),
        "--zone=us-central2-b",
    )
    assert host.forwarding(1, 2)[-4:] == ("--", "-N", "-L", "1:localhost:2")


def test_amazons_machines_are_reached_by_the_session_manager() -> None:
    """An instance is found by its bucket and address; a shell line is passed unchanged."""
    found = way("ec2", zone="eu-west-1b")
    (shell, flag, line) = found.interactive
    assert (shell, flag) == ("sh", "-c")
    assert line.startswith("exec aws ssm start-session --region eu-west-1 --target ")
    assert "Name=tag:bastion,Values=b1 Name=private-ip-address,Values=10.1.2.3" in line
    asked = "a 'b', \"c\" $d"
    assert json.loads(found.running(asked)[-1]) == {"command": [asked]}
    ports = shlex.split(found.forwarding(16006, 6006)[-1])[-1]
    assert json.loads(ports) == {"portNumber": ["6006"], "localPortNumber": ["16006"]}


def test_azures_machines_are_reached_by_ssh() -> None:
    """The key of the pool opens the account `bastion` at the address in its network."""
    found = way("azure_vm", zone="westeurope-1")
    assert found.interactive == ("ssh", "-t", "bastion@10.1.2.3")
    assert found.running("a b") == ("ssh", "bastion@10.1.2.3", "--", "a b")


def test_a_container_is_entered_through_its_engine() -> None:
    """A container has its provider's name, on the engine of the pool."""
    found = way("docker", host="ssh://gpu1")
    entered = ("docker", "--host", "ssh://gpu1", "exec")
    assert found.interactive == (*entered, "-it", "bastion-b1-gpu-7-0", "/bin/sh")
    assert found.running("a b") == (*entered, "bastion-b1-gpu-7-0", "/bin/sh", "-c", "a b")


def test_a_node_of_slurm_is_entered_as_a_step_of_its_job() -> None:
    """The job is found by the name of its machine; a port is forwarded by the node's own sshd."""
    found = way("slurm", zone="main")
    name = "bastion-b1-gpu-7-0"
    job = f'"$(squeue --noheader --states=running --format=%A --name={name})"'
    step = f"exec srun --jobid={job} --overlap --nodes=1 --ntasks=1"
    assert found.interactive == ("sh", "-c", f'{step} --pty "${{SHELL:-/bin/sh}}"')
    assert found.running("a b") == ("sh", "-c", f'{step} /bin/sh -c "$1"', "sh", "a b")
    assert found.forwarding(1, 2) == ("ssh", "-N", "-L", "1:localhost:2", "far")


def test_a_pod_is_entered_by_kubectl() -> None:
    """It uses the context and namespace of its pool; the cluster forwards a port."""
    found = way("kubernetes", context="lab", namespace="ml")
    kubectl = ("kubectl", "--context=lab", "--namespace=ml")
    there = ("--container=machine", "bastion-b1-gpu-7-0", "--", "/bin/sh")
    assert found.interactive == (*kubectl, "exec", "-it", *there)
    assert found.running("a b") == (*kubectl, "exec", *there, "-c", "a b")
    assert found.forwarding(1, 2) == (*kubectl, "port-forward", "bastion-b1-gpu-7-0", "1:2")


def test_a_provider_without_a_way_is_named() -> None:
    """Machines that exist only in memory cannot be reached, and the error says so."""
    with pytest.raises(NotFoundError, match="of provider fake cannot be reached"):
        way("fake")
