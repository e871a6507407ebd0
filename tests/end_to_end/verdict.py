"""
What must be true when everything has ended: the bucket compared with the jobs' own marks.

A job writes marks outside of the bucket (see `SCRIPT`): each start of an attempt, and whether
another process held the job or one of its devices at that moment. A lock is released with the last
process that holds it, so the next attempt detects a process that outlives its own.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bastion.client.look.views import ENDED
from bastion.records.coding.codec import decode
from bastion.records.keys import layout
from bastion.records.reports.registers import ClaimRegister, EndRegister
from bastion.records.requests.result import Result
from bastion.records.root import Event
from tests.end_to_end.roots import Place

SCRIPT = """\
w={witness}; j=$BASTION_JOB_ID; a=$BASTION_ATTEMPT
m=$(echo "${{BASTION_MARK%%:*}}" | tr / _)
exec 4>>$w/alone-$j; flock -n 4 || echo "$j $a began beside another attempt" >> $w/wrong
n=5
for d in $(echo "$CUDA_VISIBLE_DEVICES" | tr , ' '); do
  eval "exec $n>>$w/device$m-$d"; flock -n $n || echo "$j $a shares device $d" >> $w/wrong
  n=$((n + 1))
done
echo "$j $a" >> $w/starts
i=0; while [ $i -lt {lines} ]; do i=$((i + 1)); echo "line $i of $j"; sleep 0.5; done
"""
"""A job that prints so many lines; it holds its own lock and those of its devices while it runs."""

_NOISE = re.compile(rb"(Killed|Terminated|Stopped)\n")
"""What a shell prints when its `sleep` is killed."""
_REGISTER = re.compile(r"run/[^/]+/[^/]+/([^/]+)/a(\d+)-[^/]+/r0/h0/(claim|end)")


class Verdict:
    """
    Compares the bucket with the marks.

    Args:
        place: The root, reached without faults.
        jobs: Id -> the number of lines it prints.
        witness: The folder of the marks.
    """

    def __init__(self, place: Place, jobs: Mapping[str, int], witness: Path) -> None:
        self._place = place
        self._jobs = jobs
        self._starts = Counter(_lines(witness / "starts"))
        self.wrong = _lines(witness / "wrong")
        self.results = dict(self._results())
        self.claims, self.ends = self._registers()
        self.log_bytes = 0
        for found in (self._outcomes(), self._attempts(), self._logs(), self._history()):
            self.wrong += found

    @property
    def numbers(self) -> dict[str, object]:
        """Return counts of what happened."""
        return {
            "jobs": len(self._jobs),
            "outcomes": dict(Counter(each.outcome for each in self.results.values())),
            "attempts": len(self.claims),
            "attempts that began": sum(self._starts.values()),
            "ends": dict(Counter(each.end.kind for each in self.ends.values())),
            "preemptions": sum(each.preemptions for each in self.results.values()),
            "log bytes compared": self.log_bytes,
        }

    def _results(self) -> Iterator[tuple[str, Result]]:
        for key in self._place.keys(layout.RESULTS):
            result = decode(Result, self._place.read(key) or b"", key=key)
            yield result.id, result

    def _registers(
        self,
    ) -> tuple[dict[tuple[str, int], list[ClaimRegister]], dict[tuple[str, int], EndRegister]]:
        claims: dict[tuple[str, int], list[ClaimRegister]] = defaultdict(list)
        ends: dict[tuple[str, int], EndRegister] = {}
        for key in self._place.keys("run/"):
            named = _REGISTER.fullmatch(key)
            if named is None:
                continue
            at, data = (named[1], int(named[2])), self._place.read(key) or b""
            if named[3] == "claim":
                claims[at].append(decode(ClaimRegister, data, key=key))
            else:
                ends[at] = decode(EndRegister, data, key=key)
        return claims, ends

    def _outcomes(self) -> Iterator[str]:
        """Check that every job has one final record, and that there are no others."""
        for job in self._jobs.keys() - self.results.keys():
            yield f"{job} has no result"
        for job in self.results.keys() - self._jobs.keys():
            yield f"{job} was never submitted"

    def _attempts(self) -> Iterator[str]:
        """Check that every attempt started once, under one claim that an agent won."""
        for line, times in self._starts.items():
            job, number = line.split()
            won = [each for each in self.claims[job, int(number)] if each.claim is not None]
            if times != 1:
                yield f"attempt {number} of {job} began {times} times"
            if len(won) != 1:
                yield f"attempt {number} of {job} began under {len(won)} claims"

    def _logs(self) -> Iterator[str]:
        """Check that the log is what was printed, with every byte that `end` counts."""
        for (job, number), register in sorted(self.ends.items()):
            result = self.results.get(job)
            if result is None or register.end.kind != "exited":
                continue
            try:
                log = self._place.log(result.project, job, number)
            except AssertionError as error:
                yield str(error)
                continue
            self.log_bytes += len(log)
            if len(log) != register.end.sizes[0]:
                yield f"{job} a{number}: {len(log)} of {register.end.sizes[0]} bytes are there"
            if register.end.dropped_bytes:
                if b"output truncated" not in log:
                    yield f"{job} a{number}: bytes were dropped, and its log does not say so"
                continue
            whole = b"".join(b"line %d of %s\n" % (n + 1, job.encode()) for n in range(10_000))
            said = _NOISE.sub(b"", log)
            if not whole.startswith(said):
                yield f"{job} a{number}: its log is not what it printed: {said[-60:]!r}"
            if register.end.codes == (0,) and said.count(b"\n") != self._jobs[job]:
                yield f"{job} a{number}: {said.count(10)} of {self._jobs[job]} lines are there"

    def _history(self) -> Iterator[str]:
        """Check that events have neither gap nor repeat, and that every job ends exactly once."""
        root = self._place.root()
        assert root is not None
        events = [
            decode(Event, line, key=key)
            for key in self._place.keys(layout.EVENTS)
            for line in (self._place.read(key) or b"").splitlines()
        ]
        # It may be written without being confirmed.
        events += [event for segment in root.sealed for event in segment.events]
        events += root.events
        told = {event.n: event for event in events}
        if sorted(told) != list(range(root.next_event)):
            yield f"{len(told)} of {root.next_event} events are there"
        if any(event != told[event.n] for event in events):
            yield "an event was rewritten"
        ended = Counter(event.job for event in told.values() if event.what in ENDED)
        for job in self._jobs:
            if ended[job] != 1:
                yield f"{job} ended {ended[job]} times in the history"


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def told(numbers: Mapping[str, object], wrong: Sequence[str]) -> str:
    """Return the report as text."""
    lines = [f"{name}: {number}" for name, number in numbers.items()]
    return "\n".join([*lines, f"wrong: {len(wrong)}", *(f"  {each}" for each in wrong[:40])])
