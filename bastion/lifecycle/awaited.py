"""
What a job that waits for others learns when one of them ends.

One table: what was asked for, and how the target ended.

| condition | every job succeeded | one did not, others go on | all ended, one did not succeed |
|-----------|---------------------|---------------------------|--------------------------------|
| `ok`      | met                 | never met                 | never met                      |
| `any`     | met                 | waits                     | met                            |
| `failed`  | never met           | waits, and remembers      | met                            |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace

from bastion.job import Dependency, Outcome, OutcomeKind, told
from bastion.lifecycle.events import DependencyEnded
from bastion.value import value


@value
class Ended:
    """A job that has ended, as far as it matters to those who wait for it."""

    job: str
    launch: str
    outcome: Outcome


def tidings(ended: Iterable[Ended], *, going_on: Container[str]) -> Iterator[DependencyEnded]:
    """
    What to tell those who wait for `ended` jobs.

    Args:
        ended: In any order.
        going_on: Launches of which some job has not ended.
    """
    by_launch: dict[str, list[Ended]] = {}
    for each in ended:
        by_launch.setdefault(each.launch, []).append(each)
    for launch, jobs in sorted(by_launch.items()):
        for number, each in enumerate(jobs, start=1):
            is_last = number == len(jobs) and launch not in going_on
            yield DependencyEnded(
                job=each.job, launch=launch, outcome=each.outcome, is_last=is_last
            )


def tell_all(
    ended: Iterable[Ended],
    *,
    going_on: Counter[str],
    waiting: Mapping[str, Iterable[str]],
    tell: Callable[[str, DependencyEnded], Ended | None],
) -> None:
    """
    Tell everybody who waits of all that `ended`, and of those who end by being told, to the end.

    Args:
        ended: In any order.
        going_on: Launches of which some job has not ended, with the number of those.
        waiting: Who waits, by the job or launch waited for.
        tell: Tells one of them; how it ended by that, or None. It may be told what it knows.
    """
    news = list(ended)
    while news:
        over = []
        for event in tidings(news, going_on=going_on):
            names = (*waiting.get(event.job, ()), *waiting.get(event.launch, ()))
            over += [tell(name, event) for name in dict.fromkeys(names)]
        news = [each for each in over if each is not None]
        going_on = going_on - Counter(each.launch for each in news)


def waits_for(after: Iterable[Dependency], event: DependencyEnded) -> bool:
    """Whether `event` is about anything that `after` names."""
    return any(each.on in (event.job, event.launch) for each in after)


class NeverMet(Exception):  # noqa: N818 - an answer that leaves several loops, and no fault
    """
    A condition can never be met any more.

    Args:
        text: Which, in words.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def still_awaited(after: tuple[Dependency, ...], event: DependencyEnded) -> tuple[Dependency, ...]:
    """
    What of `after` is still waited for once `event` is known; telling it twice changes nothing.

    Raises:
        NeverMet: One of its conditions can never be met any more.
    """
    left = (_left(each, event) for each in after)
    return tuple(each for each in left if each is not None)


def _left(each: Dependency, event: DependencyEnded) -> Dependency | None:
    if each.on not in (event.job, event.launch):
        return each
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
    """How a job ended, after its name: `failed (exited with code 1)`, `was cancelled`."""
    match outcome.kind:
        case (OutcomeKind.SUCCEEDED | OutcomeKind.CANCELLED) as kind:
            return told(kind)  # the text of a cancelled one may tell of a chain as long as you like
        case kind:
            return f"{told(kind)} ({outcome.text})"
