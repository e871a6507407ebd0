"""A long set-up is reported, and a short one costs nothing."""

from __future__ import annotations

from bastion.agent.report.setup_progress import SetUpProgress
from bastion.records.reports.facts import Fact, Preparing
from tests.rigs.agent import OF


class Bells:
    """The bells that were rung."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def ring(self, fact: Fact) -> int:
        """Remember it."""
        self.facts.append(fact)
        return len(self.facts)


def test_it_is_told_ever_more_rarely_and_only_news() -> None:
    """It is sent after 5 s, then after pauses that double up to a minute; without repeats."""
    bells = Bells()
    progress = SetUpProgress(OF, bells)  # type: ignore[arg-type]
    told_at = []
    for second in range(300):
        progress.now_does(f"{min(second, 250)} MiB have come")
        before = len(bells.facts)
        progress.turn(1000.0 + second)
        told_at += [second] if len(bells.facts) > before else []
    assert told_at == [5, 10, 20, 40, 80, 140, 200, 260]
    assert bells.facts[0] == Preparing(of=OF, text="5 MiB have come")
