"""
VMs of Azure, with or without accelerators.

* A name is unique in a resource group and is derived from the machine's. Each VM is one request,
  which Azure refuses if the name exists. A repeated request creates nothing new, even if the answer
  was lost.
* A batch is one request for each VM. Azure starts an operation for each, and these are awaited for
  a limited time. If one fails, the VMs that the call has created are deleted: all or none.
* A VM that could not be created stays in Azure. `create` deletes it and reports why.
* Azure deletes a spot VM that it evicts, and the VM leaves the list.
* Azure forgets a deleted VM at once, so its name would be free: names that were deleted are
  remembered here.
* A list does not have the power states. Those of a limited number of VMs are read with each list,
  beginning with VMs that have not been seen to run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from bastion.errors import NoCapacityError, ProviderError
from bastion.machine import Machine, Pool
from bastion.provider.azure.arm import Arm, Said
from bastion.provider.azure.rights import lacking
from bastion.provider.azure.verdicts import Failure, verdict
from bastion.provider.azure.vm_pool import place_of, size_of
from bastion.provider.azure.vm_request import VERSION, VMS, vm_request
from bastion.provider.azure.vm_states import failure_in, listed, power_of, provisioning_of, state_of
from bastion.provider.each_place import in_each
from bastion.provider.port import Listed
from bastion.provider.vm_names import Names

WAIT_S = 60.0
"""How long a create waits for its operations. Azure reports most lacks of capacity within that."""
LOOKS = 20
"""The maximum number of power states that are read with one list."""
_REMEMBERED = 1000
_RIGHTS_VERSION = "2022-04-01"

Script = Callable[[Pool, str], str]
"""Writes a pool's start-up script, given a shell command that prints a machine's name."""
Shown = Mapping[str, Any]


class AzureVmProvider:
    """
    The VMs of one pool.

    Args:
        pool: Its zones are regions of Azure's, or zones of one.
        bucket: The bucket's own name.
        script: Writes the start-up script of a machine.
        arm: Makes the requests, about the pool's resource group.
    """

    def __init__(self, pool: Pool, *, bucket: str, script: Script, arm: Arm) -> None:
        self._pool = pool
        self._names = Names(bucket=bucket, pool=pool.name)
        self._script = script
        self._arm = arm
        self._views: dict[str, Shown] = {}
        """Machine -> its instance view, for those that have been read; the oldest come first."""
        self._deleted: dict[str, None] = {}
        """The machines that were deleted, in that order."""

    @property
    def vouches(self) -> bool:
        """See the port: Azure knows which VMs exist."""
        return True

    def list(self) -> tuple[Listed, ...]:
        """See the port; one list for the resource group, whatever zones the pool names."""
        shown = self._shown()
        self._look(shown)
        account = self.account()
        made = (
            listed(name, self._pool.name, each, self._views.get(name, {}))
            for name, each in sorted(shown.items())
        )
        return tuple(replace(each, account=account) for each in made)

    def account(self) -> str:
        """See `TellsAccount`."""
        return f"subscription {self._arm.subscription}"

    def lacking(self) -> tuple[str, ...]:
        """See `TellsRights`: Azure lists what the identity may do in the resource group."""
        path = "/providers/Microsoft.Authorization/permissions"
        what = f"rights in {self._arm.group}"
        return lacking(self._arm.pages(path, what, version=_RIGHTS_VERSION), self._arm.group)

    def create(self, machines: Sequence[Machine], pool: Pool) -> None:
        """See the port."""
        zone = machines[0].zone
        if place_of(zone)[0] != place_of(self._pool.zones[0])[0]:
            raise NoCapacityError(f"pool {pool.name} has no zone {zone!r} any more")
        shown = self._shown()
        wanted = [each.name for each in machines if each.name not in self._deleted]
        for name in wanted:
            if name in shown:
                self._revive(name, shown[name], zone)
        self._put([name for name in wanted if name not in shown], zone, pool)

    def delete(self, name: str) -> None:
        """See the port; the list shows when it is gone."""
        self._delete(name)
        kept = [each for each in self._deleted if each != name][-_REMEMBERED:]
        self._deleted = dict.fromkeys([*kept, name])

    def _delete(self, name: str) -> None:
        what = f"delete {name}"
        answer = self._ask("DELETE", name, "", what)
        if isinstance(answer, Failure) and not answer.is_missing:
            raise verdict(answer, what)

    def _put(self, names: Sequence[str], zone: str, pool: Pool) -> None:
        """
        Create VMs, all or none.

        An unknown outcome leaves what exists: the same call is repeated.
        """
        what = f"{len(names)} x {size_of(pool)} in {zone}"
        until = self._arm.clock.monotonic() + WAIT_S
        started: dict[str, str] = {}
        for name in names:
            answer = self._ask(
                "PUT",
                name,
                "",
                what,
                body=self._request(name, zone, pool),
                headers={"If-None-Match": "*"},
            )
            if isinstance(answer, Said):
                started[name] = answer.operation
            elif not answer.exists:
                self._fail(answer, what, started)
        for operation in list(started.values()):
            failure = self._arm.outcome(operation, what, until=until)
            if failure is not None:
                self._fail(failure, what, started)

    def _fail(self, failure: Failure, what: str, started: Iterable[str]) -> None:
        """Raise what a failure means, after a definite one without the VMs of the same call."""
        error = verdict(failure, what)
        if failure.status not in (408, 429) and failure.status < 500:
            with suppress(ProviderError):  # a list shows what is left, and it is deleted
                in_each(started, self._delete)
        raise error

    def _request(self, name: str, zone: str, pool: Pool) -> dict[str, Any]:
        return vm_request(
            pool,
            self._names.cloud(name),
            zone=zone,
            labels=self._names.labels_of(name),
            script=self._script(pool, f"printf %s {name}"),
        )

    def _revive(self, name: str, shown: Shown, zone: str) -> None:
        """Start a VM that is stopped, and delete one that could not be created."""
        if provisioning_of(shown) in ("Creating", "Deleting"):
            return
        view = self._view(name)
        if state_of(shown, view) != "stopped":
            return
        if not power_of(view):
            self._fail(failure_in(view), f"create {name} in {zone}", [name])
        what = f"start {name} in {zone}"
        answer = self._ask("POST", name, "/start", what)
        failure = (
            answer
            if isinstance(answer, Failure)
            else self._arm.outcome(
                answer.operation, what, until=self._arm.clock.monotonic() + WAIT_S
            )
        )
        if failure is not None:
            raise verdict(failure, what)

    def _shown(self) -> dict[str, Shown]:
        """Return the pool's VMs by machine; their names alone identify them."""
        found = {}
        for each in self._everything():
            machine = self._names.machine(each["name"], self._names.labels)
            if machine is not None:
                found[machine] = each
        return found

    def _everything(self) -> Iterator[Shown]:
        yield from self._arm.pages(VMS, f"list of pool {self._pool.name}", version=VERSION)

    def _look(self, shown: Mapping[str, Shown]) -> None:
        """Read the instance views of some VMs again."""
        self._views = {name: view for name, view in self._views.items() if name in shown}
        order = {name: at for at, name in enumerate(self._views)}
        due = sorted(
            (name for name, each in shown.items() if provisioning_of(each) != "Deleting"),
            key=lambda name: (
                state_of(shown[name], self._views.get(name, {})) == "running",
                order.get(name, -1),
                name,
            ),
        )
        for name in due[:LOOKS]:
            view = self._view(name)
            self._views.pop(name, None)
            self._views[name] = view

    def _view(self, name: str) -> Shown:
        """Return a VM's instance view; empty if the VM has gone."""
        what = f"look at {name}"
        answer = self._ask("GET", name, "/instanceView", what)
        if isinstance(answer, Said):
            return answer.body
        if answer.is_missing:
            return {}
        raise verdict(answer, what)

    def _ask(
        self,
        method: str,
        name: str,
        path: str,
        what: str,
        *,
        body: dict[str, Any] | None = None,
        headers: Mapping[str, str] = {},
    ) -> Said | Failure:
        """Send a request about one VM."""
        return self._arm.ask(
            method,
            f"{VMS}/{self._names.cloud(name)}{path}",
            what,
            version=VERSION,
            body=body,
            headers=headers,
        )
