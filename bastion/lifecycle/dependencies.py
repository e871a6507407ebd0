"""
Dependencies between jobs: which conditions are met when a job ends, and which never can be.

One table: the condition, and how the jobs that it names ended.

| condition | every job succeeded | one did not, others run   | all ended, one did not succeed |
|-----------|---------------------|---------------------------|--------------------------------|
| `ok`      | met                 | never met                 | never met                      |
| `any`     | met                 | waits                     | met                            |
| `failed`  | never met           | waits, keeps the failure  | met                            |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from bastion.job import Dependency, Outcome, OutcomeKind
from bastion.lifecycle.events import DependenciesEnded, DependencyEnded
from bastion.phrases import state_phrase
from bastion.value import replace, value


@value
class Ended:
    """A job that has ended, as far as its dependents need to know."""

    job: str
    launch: str
    outcome: Outcome


def dependency_events(
    ended: Iterable[Ended], *, unfinished: Container[str]
) -> Iterator[DependencyEnded]:
    """
    Yield the events that the dependents of `ended` jobs receive.

    Args:
        ended: In any order.
        unfinished: Launches with a job that has not ended.
    """
    by_launch: dict[str, list[Ended]] = {}
    for each in ended:
        by_launch.setdefault(each.launch, []).append(each)
    for launch, jobs in sorted(by_launch.items()):
        for number, each in enumerate(jobs, start=1):
            is_last = number == len(jobs) and launch not in unfinished
            yield DependencyEnded(
                job=each.job, launch=launch, outcome=each.outcome, is_last=is_last
            )


def propagate_ends(
    ended: Iterable[Ended],
    *,
    unfinished: Counter[str],
    waiting: Mapping[str, Iterable[str]],
    apply: Callable[[str, DependenciesEnded], Ended | None],
) -> None:
    """
    Apply the ends of jobs to their dependents, and so on for every dependent that they end.

    Args:
        ended: In any order.
        unfinished: Launches with a job that has not ended, with the number of those jobs.
        waiting: The dependents, by the job or launch that they wait for.
        apply: Applies an event to a dependent, and returns how that ended it, or None. The same
            event may be applied twice.
    """
    new = list(ended)
    while new:
        told: dict[str, list[DependencyEnded]] = {}
        for end in dependency_events(new, unfinished=unfinished):
            names = (*waiting.get(end.job, ()), *waiting.get(end.launch, ()))
            for name in dict.fromkeys(names):
                told.setdefault(name, []).append(end)
        results = [apply(name, DependenciesEnded(ends=tuple(ends))) for name, ends in told.items()]
        new = [each for each in results if each is not None]
        unfinished = unfinished - Counter(each.launch for each in new)


def waits_for(after: Iterable[Dependency], event: DependenciesEnded) -> bool:
    """Whether `after` names a job or a launch of `event`."""
    names = {name for end in event.ends for name in (end.job, end.launch)}
    return any(each.on in names for each in after)


class NeverMet(Exception):  # noqa: N818 - a result that leaves several loops, not a fault
    """
    A condition can never be met now.

    Args:
        text: The condition, in words.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def still_awaited(
    after: tuple[Dependency, ...], ends: Iterable[DependencyEnded]
) -> tuple[Dependency, ...]:
    """
    Return the dependencies of `after` that are not met after `ends`. Idempotent.

    Raises:
        NeverMet: One of the conditions can never be met now.
    """
    by_name: dict[str, list[DependencyEnded]] = {}
    for end in ends:
        for name in {end.job, end.launch}:
            by_name.setdefault(name, []).append(end)
    left = (_left_of(each, by_name.get(each.on, ())) for each in after)
    return tuple(each for each in left if each is not None)


def _left_of(each: Dependency, ends: Iterable[DependencyEnded]) -> Dependency | None:
    left: Dependency | None = each
    for end in ends:
        if left is None:
            break
        left = _left(left, end)
    return left


def _left(each: Dependency, event: DependencyEnded) -> Dependency | None:
    is_over = each.on == event.job or event.is_last
    has_succeeded = event.outcome.kind is OutcomeKind.SUCCEEDED
    failed = each.failed or ("" if has_succeeded else event.job)
    match each.when:
        case "ok" if not has_succeeded:
            raise NeverMet(f"its dependency {event.job} {how(event.outcome)}")
        case "failed" if is_over and not failed:
            raise NeverMet(f"its dependency {each.on} succeeded, and it was to start on a failure")
        case "failed" if not is_over:
            return replace(each, failed=failed)
        case _:
            return None if is_over else each


def how(outcome: Outcome) -> str:
    """Return how a job ended, to follow its name: `failed (exited with code 1)`."""
    match outcome.kind:
        case (OutcomeKind.SUCCEEDED | OutcomeKind.CANCELLED) as kind:
            # The text of a cancelled job repeats that of its dependency, so it could grow without
            # limit.
            return state_phrase(kind)
        case kind:
            return f"{state_phrase(kind)} ({outcome.text})"
