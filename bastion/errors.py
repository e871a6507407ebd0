"""
Everything Bastion raises on purpose.

    BastionError
    ├── SpecError              what a user wrote is wrong: every problem, each with its field
    ├── RefusedError           the bastion answered a request with no, and why
    │   └── BusyError          (bastion.client) a launch that may not wait; why on every machine
    ├── NotFoundError          no such object, job, machine or launch
    ├── TimedOutError          what was waited for has not come yet: nothing is lost, ask again
    ├── ConflictError          someone wrote first: read again and decide again
    ├── LeaseError
    │   ├── LeaseHeldError     another bastion leads: wait
    │   ├── FencedError        another bastion took over: stop now, do no more
    │   └── OutdatedError      root is older than the machines there are: stop, a human must look
    ├── RecordError            a stored object does not say what its schema promises
    │   ├── ForeignRecordError it is whole, and of another version of Bastion
    │   └── OversizeError      it holds more bytes than its kind may
    ├── ProviderError
    │   ├── NoCapacityError    a verdict of the provider, not a fault
    │   └── ProviderUnavailableError   try again next tick
    └── StoreError             the store is out of reach, or its answer is in doubt
        ├── StoreRefusedError  it said no: credentials, a missing bucket, a full disk
        └── InDoubtError       a request may have been accepted: ask before it is made again

A new class exists only where a caller would do something different. Every message is one line that
says what is wrong, the value and what is allowed; `hint`, where there is one, says what to do.
"""

from __future__ import annotations


class BastionError(Exception):
    """
    The root of the tree.

    Args:
        message: One line, no full stop: what is wrong, the value, what is allowed.
        hint: What to do about it, or empty.
        output: The last lines of the program that failed, oldest first, where one did.
    """

    def __init__(self, message: str, *, hint: str = "", output: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.output = output

    def __str__(self) -> str:
        """The message alone: hints are shown apart."""
        return self.message

    @property
    def in_a_line(self) -> str:
        """Message and hint, for where a line is all there is."""
        return f"{self.message}; {self.hint}" if self.hint else self.message


class SpecError(BastionError, ValueError):
    """
    What a user wrote is wrong (a ValueError too, so that pydantic gathers several).

    Args:
        problems: Every problem found, each beginning with the path of its field.
    """

    def __init__(self, *problems: str, hint: str = "") -> None:
        super().__init__("; ".join(problems), hint=hint)
        self.problems = problems


class RefusedError(BastionError):
    """The bastion answered a request with no; the message is its answer."""


class NotFoundError(BastionError):
    """No such object, job, machine or launch."""


class TimedOutError(BastionError):
    """What was waited for has not come yet; nothing is lost, and it may be asked again."""


class ConflictError(BastionError):
    """Someone else wrote first, or the thing already exists: read again and decide again."""


class LeaseError(BastionError):
    """About the right to lead."""


class LeaseHeldError(LeaseError):
    """Another bastion leads."""

    def __init__(self, owner: str, *, hint: str = "") -> None:
        super().__init__(f"another bastion leads here: {owner}", hint=hint)
        self.owner = owner


class FencedError(LeaseError):
    """Another bastion took over while we led: stop at once and do nothing more."""

    def __init__(self, *, ours: int, theirs: int) -> None:
        told = f"fenced: we led epoch {ours}, root is in epoch {theirs}"
        if ours == theirs:
            told = f"fenced: root holds another commit of epoch {theirs} than ours"
        super().__init__(told)
        self.ours = ours
        self.theirs = theirs


class OutdatedError(LeaseError):
    """Root is older than the machines there are: nothing may be decided by it."""


class RecordError(BastionError):
    """A stored object does not say what its schema promises; the message holds key and path."""


class ForeignRecordError(RecordError):
    """A stored object is whole, and of a form that another version of Bastion has."""


class OversizeError(RecordError):
    """
    A stored object holds more bytes than the reader allows; the rest was not received.

    Args:
        key: Of the object.
        limit_bytes: How many bytes are allowed.
    """

    def __init__(self, key: str, *, limit_bytes: int) -> None:
        super().__init__(f"{key}: more than {limit_bytes} bytes, which is the most allowed here")
        self.key = key
        self.limit_bytes = limit_bytes


class ProviderError(BastionError):
    """Something between us and where machines come from."""


class NoCapacityError(ProviderError):
    """The provider has no such machine now: a verdict, not a fault."""


class ProviderUnavailableError(ProviderError):
    """The provider cannot be asked now."""


class StoreError(BastionError):
    """
    The store is out of reach, or it is in doubt whether it did what was asked.

    Args:
        retry_after_s: How long the store wants to be left alone; 0 when it did not say.
    """

    def __init__(self, message: str, *, hint: str = "", retry_after_s: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class StoreRefusedError(StoreError):
    """
    The store said no: wrong credentials, a missing bucket, a full or read-only disk.

    Only a program's first contact with its store may end it with this. After one good answer a
    refusal is a problem that is told, and what was refused is tried again.
    """


class InDoubtError(StoreError):
    """A request may have reached the bucket, and may be accepted: ask before it is made again."""
