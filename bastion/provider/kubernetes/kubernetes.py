"""
Pods of one namespace of a Kubernetes cluster; each pod is a machine.

* Pods are found by labels that name the bucket and the pool. The name of a pod and its annotation
  name the machine. Its first process runs the start-up script; if that dies, the kubelet restarts
  it in place.
* A zone is a label that nodes have. A pod that finds no node waits, in the words of the scheduler;
  once the pool's patience is over, the next zone is tried.
* A finalizer keeps what is left of a pod until this provider has seen its end, even if others
  delete it. An end is trusted if the kubelet of its node reported it. If the kubelet does not
  answer, the machine is gone when the permit of its keeper has expired, as with your own hosts.
* What is left is removed a minute after its end was seen, or after an hour if the pod was not
  deleted, so that `kubectl logs` still works.
* What happens in a pod before its container starts is in its events, if they may be read. The
  boot of a machine starts when its image has been pulled.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from bastion.clock import Clock
from bastion.errors import (
    NoCapacityError,
    ProviderError,
    ProviderRefusedError,
    ProviderUnavailableError,
)
from bastion.machine import Machine, Pool
from bastion.provider.kubernetes.kubectl import (
    ChangedError,
    Json,
    Kubectl,
    MissingError,
    TakenError,
)
from bastion.provider.kubernetes.names import Names
from bastion.provider.kubernetes.pod_request import FINALIZER, pod
from bastion.provider.kubernetes.pod_states import (
    is_being_made,
    is_collected,
    is_deleted,
    is_ending,
    listed_of,
)
from bastion.provider.port import Listed

KEEP_DELETED_S = 60.0
"""Longer than two lists, by which the bastion sees that a machine is gone."""
KEEP_ENDED_S = 3600.0
TIDY_S = 10.0
"""
Time for removing leftovers within one list. If each removal takes half a minute, such as with a
webhook of the cluster that does not answer, the list of a large pool would take an hour.
"""
UNCONFIRMED_S = 300.0
"""
How long a pod may be Terminating after its grace before an admin is told. A kubelet that answers
needs seconds.
"""
END_S = 2
"""Between the signal and the end of a deleted machine: nothing is running there."""
MOST_EVENTS = 10_000
"""The most events of one list. A namespace keeps those of an hour."""
_VERBS = ("create", "delete", "list", "update")
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

Script = Callable[[Pool, str], str]
"""Writes a pool's start-up script, given a shell command that prints a machine's name."""


class KubernetesProvider:
    """
    The pods of one pool.

    Args:
        pool: Its option `namespace` names their namespace; its zones are labels of nodes.
        bucket: The bucket's own name.
        script: Writes the start-up script of a machine.
        clock: Measures how long ago an end was first seen.
        kubectl: Calls the cluster; by default the one of this host.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        bucket: str,
        script: Script,
        clock: Clock,
        kubectl: Kubectl | None = None,
    ) -> None:
        self._pool = pool
        self._bucket = bucket
        self._names = Names(bucket=bucket, pool=pool.name)
        self._script = script
        self._clock = clock
        self._kubectl = kubectl or Kubectl(pool.options, os.environ)
        self._namespace = pool.options["namespace"]
        self._pods = f"/api/v1/namespaces/{self._namespace}/pods"
        self._events = f"/api/v1/namespaces/{self._namespace}/events"
        self._seen: dict[str, float] = {}
        """UID of a pod -> when its end was first seen. A new bastion sees it again."""
        self._ending: dict[str, float] = {}
        """UID of a Terminating pod -> when it was first seen as such."""

    @property
    def vouches(self) -> bool:
        """See the port: processes on a node that Kubernetes cannot reach may continue."""
        return False

    def list(self) -> tuple[Listed, ...]:
        """See the port; what is left of ended pods is removed after a time."""
        found, seen, ending = {}, {}, {}
        shown = [*self._shown()]
        events = self._told() if any(is_being_made(said) for _, said in shown) else {}
        tidies_until = self._clock.monotonic() + TIDY_S
        for machine, said in shown:
            told = events.get(said["metadata"]["uid"], ())
            listed = listed_of(said, machine, self._pool.name, told)
            uid, now = said["metadata"]["uid"], self._clock.monotonic()
            if is_ending(said):
                ending[uid] = self._ending.get(uid, now)
                listed = _unconfirmed(listed, said, now - ending[uid])
            if listed.state == "gone":
                seen[uid] = self._seen.get(uid, now)
                if now <= tidies_until:
                    listed = self._tidied(listed, said, now - seen[uid])
            found[machine] = listed
        self._seen, self._ending = seen, ending
        return tuple(found[name] for name in sorted(found))

    def create(self, machines: Sequence[Machine], pool: Pool) -> None:
        """See the port; the kubelet restarts a pod whose agent has died."""
        there = {name for name, _ in self._shown()}
        for machine in machines:
            if machine.name not in there:
                self._make(machine, pool)

    def delete(self, name: str) -> None:
        """
        See the port; only the exact pod that was seen is deleted.

        What a lost node has left is removed. That it is no longer listed proves nothing. A pod
        whose labels were edited gets them back, so that lists show its end.
        """
        for _, said in self._shown(name):
            metadata = said["metadata"]
            about = f"delete pod {metadata['name']}"
            labels = {**(metadata.get("labels") or {}), **self._names.labels}
            if labels != metadata.get("labels"):
                self._replace(said, about, labels=labels)
            if is_deleted(said) and is_collected(said):
                self._release(said, about)
            elif not is_deleted(said) or metadata.get("deletionGracePeriodSeconds", 0) > END_S:
                self._delete(said, about)

    def lacking(self) -> tuple[str, ...]:
        """See `TellsRights`: missing permissions, and the cluster's answer to a pod in a zone."""
        found = [
            f"the bastion's account may not {verb} pods in namespace {self._namespace}"
            for verb in _VERBS
            if not self._may(verb, "pods")
        ]
        zones = () if found else self._pool.zones
        if not self._may("list", "events"):
            found.append(
                f"the bastion's account may not list events in namespace {self._namespace}, which"
                " tell that an image is being pulled"
            )
        for zone in zones:
            machine = Machine(name=f"{self._pool.name}-0-0", pool=self._pool.name, zone=zone)
            try:
                self._send(machine, self._pool, script="exit 0", is_dry=True)
            except ProviderUnavailableError:
                raise
            except NoCapacityError as error:
                # A quota that this pool's own machines use up is no fault.
                if not any(True for _ in self._shown()):
                    found.append(error.message)
            except ProviderError as error:
                found.append(error.message)
        return tuple(dict.fromkeys(found))

    def _make(self, machine: Machine, pool: Pool) -> None:
        try:
            self._send(machine, pool, self._script(pool, f"printf %s {machine.name}"))
        except TakenError as error:
            # Its annotation shows if it is ours, created by a request whose answer was lost.
            if not any(True for _ in self._shown(machine.name)):
                raise ProviderRefusedError(
                    f"{error.message}, and is no machine of this bastion",
                    hint="delete that pod, or give the pool a namespace of its own",
                ) from error

    def _send(self, machine: Machine, pool: Pool, script: str, *, is_dry: bool = False) -> None:
        body = pod(pool, machine, script, bucket=self._bucket)
        asked = "fieldValidation=Strict" + ("&dryRun=All" if is_dry else "")
        where = f" in zone {machine.zone}" if machine.zone else ""
        about = f"create a pod{where} in namespace {self._namespace}"
        self._kubectl.ask("create", f"{self._pods}?{asked}", body, about=about)

    def _delete(self, said: Mapping[str, Any], about: str) -> None:
        metadata = said["metadata"]
        asked = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": END_S,
            "preconditions": {"uid": metadata["uid"]},
        }
        try:
            self._kubectl.ask("delete", f"{self._pods}/{metadata['name']}", asked, about=about)
        except MissingError:
            return

    def _tidied(self, listed: Listed, said: Mapping[str, Any], seen_s: float) -> Listed:
        """Remove what is left of a pod that ended a while ago; report what prevents it."""
        about = f"remove pod {said['metadata']['name']}"
        try:
            if is_deleted(said) and seen_s >= KEEP_DELETED_S:
                self._release(said, about)
            elif not is_deleted(said) and seen_s >= KEEP_ENDED_S:
                self._delete(said, about)
        except ProviderError as error:
            return replace(listed, odd=error.message)
        return listed

    def _release(self, said: Mapping[str, Any], about: str) -> None:
        """Let the cluster forget a pod."""
        left = [each for each in said["metadata"].get("finalizers") or () if each != FINALIZER]
        self._replace(said, about, finalizers=left)

    def _replace(self, said: Mapping[str, Any], about: str, **changes: Any) -> None:
        """Change the metadata of a pod; its version must be the one that was seen."""
        metadata = {**said["metadata"], **changes}
        body = {"apiVersion": "v1", "kind": "Pod", **said, "metadata": metadata}
        try:
            self._kubectl.ask("replace", f"{self._pods}/{metadata['name']}", body, about=about)
        except (MissingError, ChangedError):
            return  # the next list shows it

    def _may(self, verb: str, resource: str) -> bool:
        attributes = {"namespace": self._namespace, "verb": verb, "resource": resource}
        asked = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = self._kubectl.ask("create", _REVIEWS, asked, about="ask for rights")
        return bool(answer.get("status", {}).get("allowed"))

    def _told(self) -> Mapping[str, Sequence[Json]]:
        """Return the events of pods by the pod's UID; none if they cannot be read."""
        found: dict[str, list[Json]] = defaultdict(list)
        asked = {"fieldSelector": "involvedObject.kind=Pod"}
        try:
            events = self._kubectl.items(self._events, asked, about="list events")
            for event in islice(events, MOST_EVENTS):
                found[event["involvedObject"].get("uid", "")].append(event)
        except ProviderError:
            return {}  # `lacking` tells of the right
        return found

    def _shown(self, machine: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
        """
        Yield the pods of this pool by machine.

        If a machine is named, only its pod is yielded, even if its labels were edited.
        """
        labels = ",".join(f"{key}={text}" for key, text in self._names.labels.items())
        asked = {"labelSelector": labels}
        if machine:
            asked = {"fieldSelector": f"metadata.name={self._names.pod(machine)}"}
        for said in self._kubectl.items(self._pods, asked, about="list pods"):
            name = self._names.machine(said["metadata"])
            if name is not None:
                yield name, said


def _unconfirmed(listed: Listed, said: Mapping[str, Any], ending_s: float) -> Listed:
    """Report a pod whose kubelet has not confirmed its end for long."""
    metadata, node = said["metadata"], said["spec"]["nodeName"]
    if ending_s <= UNCONFIRMED_S + metadata.get("deletionGracePeriodSeconds", 0):
        return listed
    why = (
        f"its pod {metadata['name']} is Terminating, and its node {node} has not confirmed its end;"
        f" if that node is off permanently, run: kubectl delete node {node} (the bastion forces"
        " nothing: the pod's processes may still run)"
    )
    return replace(listed, stuck=f"Kubernetes: {why}", odd=why)
