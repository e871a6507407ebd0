"""
The nodes of the cluster, which are this machine: a scheduler, and kubelets with containers.

A container is a process and what it starts. There is no image, no limit and no mount: each pod has
its own folder instead of the one that its machine names.

Source: kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle; pkg/kubelet/status and
third_party/forked/golang/expansion of Kubernetes 1.32.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.rigs.limits import joined, on_thread
from tests.servers.aws.hosts import kill_host
from tests.servers.kubernetes.pods import OVER, Json, Pods, now

ZONE = "topology.kubernetes.io/zone"
IMAGE = "python:3.12"
TICK_S = 0.02


@dataclass
class Node:
    """One node, which holds one pod that asks for devices or cores."""

    name: str
    labels: Mapping[str, str]
    is_silent: bool = False
    """Whether its kubelet is cut off from the API server while its pods run."""


@dataclass
class Run:
    """The container of a pod."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None
    restarts: int = 0
    waits_since: int = 0
    """The version of the pod when its restart was postponed; 0 if none is."""
    last: Json = field(default_factory=dict)
    reason: str = ""
    """Why it will end, if the node says so."""
    ends_at: float | None = None
    """When it is killed after being told to end."""


class Kubelet:
    """Runs the pods of `pods`; their folders are below `folder`."""

    def __init__(self, pods: Pods, folder: Path) -> None:
        self._pods = pods
        self._folder = folder / "pods"
        self._runs: dict[str, Run] = {}
        self.nodes = [
            Node("node-1", {ZONE: "main", "gpu": "h100"}),
            Node("node-2", {ZONE: "main", "gpu": "h100"}),
            Node("node-3", {ZONE: "more", "gpu": "h100"}),
        ]
        self.images = {IMAGE}
        self.pulling: set[str] = set()
        """Those whose pull takes long."""
        self.unmounted = ""
        """Why a volume of a pod cannot be mounted; empty if nothing keeps it from that."""
        self.secrets: dict[str, Mapping[str, str]] = {}
        self.keeps_deleted = False
        """Whether deletions are accepted, but nothing ends."""

    @contextmanager
    def working(self) -> Iterator[None]:
        """Work on a thread; kill everything in the end."""
        is_over = threading.Event()

        def work() -> None:
            while not is_over.wait(TICK_S):
                with self._pods.lock:
                    for pod in [*self._pods.of.values()]:
                        self._tick(pod)

        thread = on_thread(work)
        try:
            yield
        finally:
            is_over.set()
            joined(thread)
            kill_host(self._folder)
            for run in self._runs.values():
                if run.process is not None:
                    run.process.wait()

    def kill(self, name: str, *, reason: str = "Error") -> None:
        """Kill what runs in a pod, as the kernel does when memory is short."""
        with self._pods.lock:
            run = self._run(self._named(name))
            run.reason = reason
            kill_host(run.folder)

    def evict(self, name: str) -> None:
        """Let the node of a pod evict it because of disk pressure."""
        with self._pods.lock:
            pod = self._named(name)
            kill_host(self._run(pod).folder)
            pod["status"] |= {"reason": "Evicted", "message": "The node was low on resource: disk"}
            self._over(pod, "Failed", reason="Error", code=137)

    def node_of(self, name: str) -> Node:
        """Return the node of a pod."""
        with self._pods.lock:
            return self._node(self._named(name))

    def lose(self, name: str) -> None:
        """Destroy the node of a pod: no report says that its containers have ended."""
        with self._pods.lock:
            pod = self._named(name)
            self._node(pod).is_silent = True
            kill_host(self._run(pod).folder)
            self._pods.collect(pod)

    def logs(self) -> None:
        """Print what the containers have printed; pytest shows it on failure."""
        for log in self._folder.glob("*.log"):
            sys.stdout.write(f"--- {log}\n{log.read_text(errors='replace')}")

    def _named(self, name: str) -> Json:
        return next(pod for (_, each), pod in self._pods.of.items() if each == name)

    def _run(self, pod: Json) -> Run:
        uid = pod["metadata"]["uid"]
        return self._runs.setdefault(uid, Run(folder=self._folder / uid))

    def _tick(self, pod: Json) -> None:
        if pod["status"]["phase"] in OVER:
            return
        if not pod["spec"].get("nodeName"):
            if "deletionTimestamp" not in pod["metadata"]:
                self._schedule(pod)
            return
        if not self._node(pod).is_silent:
            self._sync(pod, self._run(pod))

    def _node(self, pod: Json) -> Node:
        return next(each for each in self.nodes if each.name == pod["spec"]["nodeName"])

    def _schedule(self, pod: Json) -> None:
        wanted = pod["spec"].get("nodeSelector", {})
        used = {
            each["spec"].get("nodeName")
            for each in self._pods.of.values()
            if each["status"]["phase"] not in OVER
        }
        fitting = [node for node in self.nodes if wanted.items() <= dict(node.labels).items()]
        tainted = [node for node in fitting if node.is_silent]
        fitting = [node for node in fitting if not node.is_silent]
        free = [node for node in fitting if node.name not in used]
        if free:
            pod["spec"]["nodeName"] = free[0].name
            self._condition(pod, "PodScheduled", "True")
            return
        count = len(self.nodes)
        others = count - len(fitting) - len(tainted)
        why = [f"{len(fitting)} Insufficient nvidia.com/gpu"] if fitting else []
        if tainted:
            taint = "{node.kubernetes.io/unreachable: }"
            why.append(f"{len(tainted)} node(s) had untolerated taint {taint}")
        if others:
            why.append(f"{others} node(s) didn't match Pod's node affinity/selector")
        told = f"0/{count} nodes are available: {', '.join(why)}."
        self._condition(pod, "PodScheduled", "False", reason="Unschedulable", message=told)

    def _sync(self, pod: Json, run: Run) -> None:
        if "deletionTimestamp" in pod["metadata"] and not self.keeps_deleted:
            self._end(pod, run)
        if pod["status"]["phase"] in OVER:
            return
        if run.process is None:
            if why := self._wrong(pod):
                self._show(pod, run, {"waiting": {"reason": why[0], "message": why[1]}})
            else:
                self._begin(pod, run)
        elif run.waits_since:
            if self._pods.listed >= run.waits_since:
                run.restarts += 1
                self._begin(pod, run)
        elif run.process.poll() is not None:
            self._exited(pod, run, run.process.returncode)

    def _wrong(self, pod: Json) -> tuple[str, str] | None:
        (container,) = pod["spec"]["containers"]
        if self.unmounted:
            self._told_once(pod, "FailedMount", self.unmounted, kind="Warning")
            return "ContainerCreating", ""
        pull = f'Pulling image "{container["image"]}"'
        if container["image"] in self.pulling:
            self._told_once(pod, "Pulling", pull)
            return "ContainerCreating", ""
        if container["image"] not in self.images:
            return "ImagePullBackOff", f'Back-off pulling image "{container["image"]}"'
        for each in container.get("envFrom", ()):
            name = each["secretRef"]["name"]
            if name not in self.secrets:
                return "CreateContainerConfigError", f'secret "{name}" not found'
        return None

    def _told_once(self, pod: Json, reason: str, message: str, *, kind: str = "Normal") -> None:
        mine = (each for each in self._pods.events if each["reason"] == reason)
        uid = pod["metadata"]["uid"]
        if not any(each["involvedObject"]["uid"] == uid for each in mine):
            self._pods.tell(pod, reason, message, kind=kind)

    def _begin(self, pod: Json, run: Run) -> None:
        (container,) = pod["spec"]["containers"]
        run.folder.mkdir(parents=True, exist_ok=True)
        env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": "/root"}
        for each in container.get("envFrom", ()):
            env |= self.secrets[each["secretRef"]["name"]]
        env |= {each["name"]: expanded(each["value"], env) for each in container.get("env", ())}
        # All pods share the files of this machine.
        given = {**env, "BASTION_BOOT_DIR": str(run.folder)}
        argv = [expanded(word, env) for word in (*container["command"], *container["args"])]
        with self._log(run).open("ab") as log:
            run.process = subprocess.Popen(
                argv,
                env=given,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        run.waits_since = 0
        pod["status"]["phase"] = "Running"
        self._condition(pod, "Ready", "True")
        self._show(pod, run, {"running": {"startedAt": now()}})

    def _log(self, run: Run) -> Path:
        return run.folder.with_suffix(".log")

    def _end(self, pod: Json, run: Run) -> None:
        grace = pod["metadata"]["deletionGracePeriodSeconds"]
        if run.process is None:
            self._over(pod, "Failed", reason="ContainerStatusUnknown", code=137)
            return
        ends_at = time.monotonic() + grace
        if run.ends_at is None:
            with suppress(ProcessLookupError):
                os.kill(run.process.pid, signal.SIGTERM)
        run.ends_at = min(ends_at, run.ends_at or ends_at)
        if time.monotonic() >= run.ends_at or run.waits_since:
            kill_host(run.folder)
        if run.process.poll() is not None:
            self._exited(pod, run, run.process.returncode)

    def _exited(self, pod: Json, run: Run, code: int) -> None:
        kill_host(run.folder)
        code = code if code >= 0 else 128 - code
        is_last = "deletionTimestamp" in pod["metadata"] or not code
        if is_last or pod["spec"]["restartPolicy"] == "Never":
            reason = run.reason or ("Error" if code else "Completed")
            self._over(pod, "Failed" if code else "Succeeded", reason=reason, code=code)
            return
        run.last = {"terminated": {"exitCode": code, "reason": run.reason or "Error"}}
        run.reason = ""
        told = "back-off 10s restarting failed container"
        self._show(pod, run, {"waiting": {"reason": "CrashLoopBackOff", "message": told}})
        run.waits_since = int(pod["metadata"]["resourceVersion"])

    def _over(self, pod: Json, phase: str, *, reason: str, code: int) -> None:
        pod["status"]["phase"] = phase
        self._show(pod, self._run(pod), {"terminated": {"exitCode": code, "reason": reason}})
        self._pods.ended(pod)

    def _show(self, pod: Json, run: Run, state: Json) -> None:
        (container,) = pod["spec"]["containers"]
        shown: Json = {
            "name": container["name"],
            "ready": "running" in state,
            "started": "running" in state,
            "restartCount": run.restarts,
            "image": container["image"],
            "imageID": "",
            "state": state,
            "lastState": run.last,
        }
        if pod["status"].get("containerStatuses") != [shown]:
            pod["status"]["containerStatuses"] = [shown]
            self._pods.touch(pod)

    def _condition(self, pod: Json, kind: str, status: str, **said: Any) -> None:
        conditions = pod["status"].setdefault("conditions", [])
        before: Json = next((each for each in conditions if each["type"] == kind), {})
        if {**before, "status": status, **said} == before:
            return
        if before:
            conditions.remove(before)
        at = {"lastTransitionTime": now()}
        conditions.append({"type": kind, "status": status, **at, **said})
        self._pods.touch(pod)


def expanded(text: str, env: Mapping[str, str]) -> str:
    """Return what Kubernetes makes of a word of a command: $(NAME) of known names, and $ of $$."""

    def said(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return env.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", said, text)
