"""
Bastion runs machine-learning jobs on shared accelerators with a bucket and one small VM.

These names are the whole public API. They are lazy: `import bastion` loads only the standard
library, and each name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as in typing, which takes eight times as long to load as everything else
if TYPE_CHECKING:
    from bastion.admin import Admin
    from bastion.client import (
        BusyError,
        Chunk,
        Client,
        EventView,
        JobView,
        LaunchHandle,
        LaunchStatus,
        MachineReport,
        MachineView,
        PoolsView,
        StatusView,
        Wanted,
        Why,
    )
    from bastion.errors import (
        BastionError,
        ConflictError,
        InDoubtError,
        NotFoundError,
        RefusedError,
        SpecError,
        StoreError,
        TimedOutError,
    )
    from bastion.marks import checkpointed, finished, notice, report
    from bastion.spec import (
        After,
        Array,
        Choice,
        Job,
        Launch,
        LogUniform,
        Notify,
        Process,
        PythonEnv,
        Resources,
        Sample,
        Secret,
        Sweep,
        Uniform,
        Where,
    )
    from bundler.code import DockerBuild, GitRepo, Image, LocalDir
    from bundler.errors import InvalidCodeError

__all__ = [
    "Admin",
    "After",
    "Array",
    "BastionError",
    "BusyError",
    "Choice",
    "Chunk",
    "Client",
    "ConflictError",
    "DockerBuild",
    "EventView",
    "GitRepo",
    "Image",
    "InDoubtError",
    "InvalidCodeError",
    "Job",
    "JobView",
    "Launch",
    "LaunchHandle",
    "LaunchStatus",
    "LocalDir",
    "LogUniform",
    "MachineReport",
    "MachineView",
    "NotFoundError",
    "Notify",
    "PoolsView",
    "Process",
    "PythonEnv",
    "RefusedError",
    "Resources",
    "Sample",
    "Secret",
    "SpecError",
    "StatusView",
    "StoreError",
    "Sweep",
    "TimedOutError",
    "Uniform",
    "Wanted",
    "Where",
    "Why",
    "checkpointed",
    "finished",
    "notice",
    "report",
]

_MARKS = "bastion.marks"
"""For programs inside a job: it imports no other package of ours, so no user file can hide one."""
_PLACES = {
    "bastion.admin": ("Admin",),
    "bastion.client": (
        "BusyError",
        "Chunk",
        "Client",
        "EventView",
        "JobView",
        "LaunchHandle",
        "LaunchStatus",
        "MachineReport",
        "MachineView",
        "PoolsView",
        "StatusView",
        "Wanted",
        "Why",
    ),
    "bastion.errors": (
        "BastionError",
        "ConflictError",
        "InDoubtError",
        "NotFoundError",
        "RefusedError",
        "SpecError",
        "StoreError",
        "TimedOutError",
    ),
    _MARKS: ("checkpointed", "finished", "notice", "report"),
    "bastion.spec": (
        "After",
        "Array",
        "Choice",
        "Job",
        "Launch",
        "LogUniform",
        "Notify",
        "Process",
        "PythonEnv",
        "Resources",
        "Sample",
        "Secret",
        "Sweep",
        "Uniform",
        "Where",
    ),
    "bundler.code": ("DockerBuild", "GitRepo", "Image", "LocalDir"),
    "bundler.errors": ("InvalidCodeError",),
}
_HOMES = {name: place for place, names in _PLACES.items() for name in names}
_PACKAGES = ("quota", "bundler")
"""Our other packages, which a file next to a user's script may hide."""


if not TYPE_CHECKING:  # a type checker then reports a name that is not imported above

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            from bastion.errors import in_notebooks

            raise in_notebooks(_absent(name))
        if home != _MARKS:
            _refuse_shadows()
        found = getattr(import_module(home), name)
        globals()[name] = found
        return found


_ELSEWHERE = {
    "clusterfudge": "from bastion.compat import clusterfudge",
    "CreateLaunchRequest": "from bastion.compat.clusterfudge import CreateLaunchRequest",
    "GitRepository": "from bastion import GitRepo",
    "Config": "bastion.Client(root) takes the root",
    "Task": "from bastion import Job",
    "Request": "from bastion import Launch",
    "Gpu": "from bastion import Resources",
    "Resource": "from bastion import Resources",
    "launch": "bastion.Client().launch(bastion.Launch(...))",
    "run": "bastion.Client().launch(bastion.Launch(...))",
    "submit": "bastion.Client().launch(bastion.Launch(...))",
}
"""Names that users of other systems expect -> what to write instead."""


def _absent(name: str) -> Exception:
    """Return the error for an unknown name; it says where the name is, or suggests one."""
    from difflib import get_close_matches

    elsewhere = _ELSEWHERE.get(name) or _ELSEWHERE.get(name.capitalize())
    if elsewhere:
        return ImportError(f"bastion has no {name!r}; write: {elsewhere}")
    near = [] if name.startswith("_") else get_close_matches(name, __all__, n=1)
    nearest = f"; did you mean {near[0]}?" if near else ""
    return AttributeError(f"module 'bastion' has no attribute {name!r}{nearest}")


def __dir__() -> list[str]:
    return sorted(__all__)


def _refuse_shadows() -> None:
    """
    Check that no `quota.py` or `bundler.py` of the user hides Bastion's own packages.

    Raises:
        ImportError: One does. The message names it and says what to do.
    """
    from importlib.util import find_spec

    for package in _PACKAGES:
        spec = find_spec(package)
        path = (spec and spec.origin) or package
        if not path.endswith("__init__.py"):
            raise ImportError(
                f"{path} hides bastion's own package {package!r}: rename your file, or start"
                " your script from another folder"
            )
