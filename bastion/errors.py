"""
The errors that Bastion raises on purpose.

    BastionError
    ├── BundleError            (bundler) code cannot be selected, built, sent or fetched
    │   └── InvalidCodeError   a LocalDir, GitRepo, Image or DockerBuild is wrong
    ├── SpecError              the user's input is wrong: every problem, each with its field
    ├── RefusedError           the bastion refused a request, and why
    │   └── BusyError          (bastion.client) a launch that must start now; why not, per machine
    ├── NotFoundError          no such object, job, machine or launch
    ├── TimedOutError          the wait ended without a result: nothing is lost, wait again
    ├── ConflictError          the conditional write lost: read again and decide again
    ├── LeaseError
    │   ├── LeaseHeldError     another bastion leads: wait
    │   ├── FencedError        another bastion took over: stop immediately
    │   └── OutdatedError      root is older than the machines that exist: stop, an admin must look
    ├── RecordError            a stored object does not match its schema
    │   ├── ForeignRecordError it is valid, but from another version of Bastion
    │   └── OversizeError      it has more bytes than its kind can have
    ├── ProviderError
    │   ├── NoCapacityError    a verdict of the provider, not a fault: try another zone
    │   ├── ProviderRefusedError       rights are missing, or a setting is wrong: an admin must act
    │   └── ProviderUnavailableError   retry in the next tick
    └── StoreError             the store is out of reach, or the result of a write is in doubt
        ├── StoreRefusedError  it refused: credentials, a missing bucket, a full disk
        └── InDoubtError       a request may have been accepted: check before sending it again

The base class is in `quota.bastion_error`, since the bundler knows nothing of this package.

A class exists only where a caller would act differently. Every message is one line: what is wrong,
the value, and what is allowed. `hint` is what the user can do, or empty.
"""

from __future__ import annotations

from quota.bastion_error import BastionError as BastionError
from quota.bastion_error import in_notebooks as in_notebooks
from quota.bastion_error import shortened


class SpecError(BastionError, ValueError):
    """
    The user's input is wrong (also a ValueError, so that pydantic collects several).

    Args:
        problems: Every problem found, each beginning with the path of its field. Problems longer
            than 1,000 characters are cut in the middle.
    """

    def __init__(self, *problems: str, hint: str = "") -> None:
        self.problems = tuple(map(shortened, problems))
        super().__init__("; ".join(self.problems), hint=hint)


class RefusedError(BastionError):
    """The bastion refused a request; the message is its answer."""


class NotFoundError(BastionError):
    """No such object, job, machine or launch."""


class TimedOutError(BastionError):
    """The wait ended without a result; nothing is lost, and the caller can wait again."""


class ConflictError(BastionError):
    """The conditional write lost, or the object exists: read again and decide again."""


class LeaseError(BastionError):
    """An error about the lease of root."""


class LeaseHeldError(LeaseError):
    """Another bastion leads."""

    def __init__(self, owner: str, *, hint: str = "") -> None:
        super().__init__(f"another bastion leads here: {owner}", hint=hint)
        self.owner = owner


class FencedError(LeaseError):
    """Another bastion took over while we led: stop immediately."""

    def __init__(self, *, ours: int, theirs: int) -> None:
        text = f"fenced: we led epoch {ours}, root is in epoch {theirs}"
        if ours == theirs:
            text = f"fenced: root holds another commit of epoch {theirs} than ours"
        super().__init__(text)
        self.ours = ours
        self.theirs = theirs


class OutdatedError(LeaseError):
    """Root is older than the machines that exist, or a copy: no decision can be based on it."""


class RecordError(BastionError):
    """A stored object does not match its schema; the message has its key and path."""


class ForeignRecordError(RecordError):
    """A stored object is valid, but in a format of another version of Bastion."""


class OversizeError(RecordError):
    """
    A stored object has more bytes than the reader allows; the rest was not read.

    Args:
        key: Key of the object.
        limit_bytes: The maximum number of bytes.
    """

    def __init__(self, key: str, *, limit_bytes: int) -> None:
        super().__init__(f"{key}: more than {limit_bytes} bytes, which is the most allowed here")
        self.key = key
        self.limit_bytes = limit_bytes


class ProviderError(BastionError):
    """An error from a provider of machines."""


class NoCapacityError(ProviderError):
    """
    The provider creates no such machine now: a verdict, not a fault.

    Args:
        is_limit: A limit of the account is reached, such as its quota for a region.
        is_away: One of your own hosts was not reached. With neither, the zone is sold out.
    """

    def __init__(
        self, message: str, *, hint: str = "", is_limit: bool = False, is_away: bool = False
    ) -> None:
        super().__init__(message, hint=hint)
        self.is_limit = is_limit
        self.is_away = is_away


class ProviderRefusedError(ProviderError):
    """The provider refuses: rights are missing, or a setting of the pool is wrong."""


class ProviderUnavailableError(ProviderError):
    """
    The provider is out of reach, or asks for patience; the request may have been carried out.

    Args:
        retry_after_s: The shortest wait before a retry, as the provider asked; 0 if it did not ask.
    """

    def __init__(self, message: str, *, hint: str = "", retry_after_s: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class StoreError(BastionError):
    """
    The store is out of reach, or the result of a write is in doubt.

    Args:
        retry_after_s: The shortest wait before a retry, as the store asked; 0 if it did not ask.
    """

    def __init__(self, message: str, *, hint: str = "", retry_after_s: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class StoreRefusedError(StoreError):
    """
    The store refused: wrong credentials, a missing bucket, a full or read-only disk.

    It ends a program only at the first contact with its store. After one good answer, a refusal is
    reported as a problem and the request is retried.
    """


class StoreFullError(StoreRefusedError):
    """
    The store has no room for a write; it can be read, and written again once there is room.

    A bastion that starts in the meantime waits: a restart must not fail then.
    """


class InDoubtError(StoreError):
    """A request may have reached the bucket and been accepted: check before sending it again."""
