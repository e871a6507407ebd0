"""
The APIs of a project at Google: how they are called, and that they are enabled.

Source: serviceusage.v1.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bastion.clock import Clock
from bastion.errors import ProviderRefusedError
from bastion.provider.gcp.api import Api, Name
from bastion.value import value

_ENABLE_S = 120.0


class Apis:
    """
    The APIs of one project, each opened at its first use.

    Args:
        project: Its ID.
        clock: For pauses.
    """

    def __init__(self, project: str, clock: Clock) -> None:
        self.project = project
        self.clock = clock
        self._opened: dict[str, Api] = {}

    def __getitem__(self, name: Name) -> Api:
        if name not in self._opened:
            self._opened[name] = Api(name, project=self.project, clock=self.clock)
        return self._opened[name]


@value
class EnabledApis:
    """APIs that are enabled for the project."""

    apis: Apis
    names: tuple[str, ...]

    @property
    def commands(self) -> tuple[str, ...]:
        """See `Step`."""
        return (f"gcloud services enable {' '.join(self.names)} --project={self.apis.project}",)

    def take(self) -> str:
        """See `Step`."""
        api = self.apis["serviceusage"]
        parent, what = f"projects/{self.apis.project}", "the APIs of the project"
        paths = [f"{parent}/services/{name}" for name in self.names]
        shown = api.call(api.resource("services").batchGet(parent=parent, names=paths), what)
        known = shown.get("services", ())
        on = {each["name"].rpartition("/")[2] for each in known if each.get("state") == "ENABLED"}
        missing = [name for name in self.names if name not in on]
        if not missing:
            return ""
        request = api.resource("services").batchEnable(parent=parent, body={"serviceIds": missing})
        done = _settled(api, request, what)
        if error := done.get("error"):
            raise ProviderRefusedError(f"{what}: {error.get('message', error)}")
        return f"enabled {', '.join(missing)}"


def _settled(api: Api, request: Any, what: str) -> Mapping[str, Any]:
    begun = api.call(request, what)
    operations = api.resource("operations")
    return api.settle(begun, lambda: operations.get(name=begun["name"]), what, wait_s=_ENABLE_S)
