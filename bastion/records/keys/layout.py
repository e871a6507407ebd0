"""
Every key in the bucket. No other file builds one.

    <root>/
      README.md                                      bastion   what lies where, create-only
      project-quotas/project-quotas.config           admins    the quota file (TOML)
      config/bastion.toml                            admins    pools, secrets, webhooks (TOML)
      config/<name>.hosts                            admins    hosts of ssh pools and their labels
      inbox/<project>/<user>/<ulid>.<verb>.json      users     requests, create-only
      inbox/_admin/<user>/<ulid>.<verb>.json         admins    the same about machines, create-only
      inbox/_bell/<pool>/<machine>/<life>-<n>.json   agents    facts, create-only
      results/<project>/<user>/<ulid>.json           bastion   the answer to a request, create-only
      state/root.json                                bastion   THE state, compare-and-swapped
      state/log/<first>.jsonl                        bastion   sealed events, create-only
      state/aside/<key>                              bastion   objects that cannot be read
      state/snap/<date>/<seq>.json                   bastion   hourly copy of root, create-only
      launches/<project>/<launch>/spec.json          bastion   the checked spec, create-only
      jobs/<project>/<job>/result.json               bastion   the final record, create-only
      run/<pool>/<project>/<job>/a<k>-<nonce>/r<i>/h<j>/claim    write-once: CLAIMED | REVOKED
      run/<pool>/<project>/<job>/a<k>-<nonce>/r<i>/h<j>/end      write-once: how the host ended
      go/<project>/<job>/a<k>-<nonce>                bastion   write-once: GO | REVOKED
      machines/<pool>/<machine>/life/<n>             agents    a keeper life, create-only
      machines/<pool>/<machine>/check/<ulid>         agents    what a check found, create-only
      instructions/<pool>/<machine>/<life>/<n>.json  bastion   a batch, create-only
      instructions/<pool>/<machine>/argv/<ulid>-<digest>   bastion   a long command, create-only
      view/<name>.json                               bastion   published for reading, swapped
      logs/_bastion/<bastion>/all/<n>.log            bastion   segments of its own log
      logs/_bastion/<bastion>/tail                   bastion   the tail of its own log, swapped
      logs/<name>-bastion                            bastion   the same, of a bastion so named
      logs/<project>/<job>/a<k>/r<i>/h<j>/p<l>/<byte offset>.log   agents   log segments
      logs/<project>/<job>/a<k>/r<i>/h<j>/usage/<n>.json.gz  agents   samples of a host, create-only
      logs/<project>/<job>/x<ulid>/<byte offset>.log         agents   output of a command
      logs/<project>/<job>/x<ulid>/end               agents    write-once: how a command ended
      usage/<pool>/<machine>.json                    agents    its current use, swapped
      output/<project>/<job>/content/<sha256>        agents    what jobs keep between attempts
      output/<project>/<job>/saved/a<k>/r<i>/h<j>/<n>.json    agents   one host's list of that
      bundles/manifests/<digest>, bundles/packs/<digest>           users    code
      bundles/origins/<digest>                       users     where launches came from, create-only
      wheels/<digest>/<name>.whl                     bastion   Bastion itself, create-only
      history/<table>/dt=<date>/<first>-<after>.parquet   bastion   one day's record, create-only
      history/recent/<table>/<first>-<after>.parquet      bastion   the last days' record

An agent's objects, apart from logs and outputs, are below the pool of its machine. Instructions are
where no agent can write. So the permissions of a pool's agents can be limited to that pool.

Numbers in keys are padded with zeros so that names sort like numbers. No number in a key has more
than 15 digits.
A project cannot be named `_admin`, `_bell`, `_bastion` or `x-bastion`: the quota file refuses it.
"""

from __future__ import annotations

import re

from bastion.machine_name import pool_of
from bastion.records.keys.key_parts import HistoryFile as HistoryFile
from bastion.records.keys.key_parts import LogStream as LogStream
from bastion.records.keys.key_parts import RegisterName as RegisterName
from bastion.records.keys.key_parts import RequestName as RequestName
from bastion.records.keys.key_parts import SavedOutputName as SavedOutputName
from bastion.records.keys.key_parts import UsageName as UsageName
from quota.pattern import pattern

README = "README.md"
QUOTA = "project-quotas/project-quotas.config"
CONFIG = "config/bastion.toml"
INBOX = "inbox/"
BELLS = "inbox/_bell/"
ADMIN = "_admin"
"""Takes the place of a project in admins' requests and in the answers to them."""
ADMINS = f"inbox/{ADMIN}/"
ROOT = "state/root.json"
EVENTS = "state/log/"
SNAPSHOTS = "state/snap/"
VIEWS = "view/"
LOGS = "logs/"
BUNDLES = "bundles/"
RESULTS = "jobs/"
ANSWERS = "results/"
SPECS = "launches/"
RUNS = "run/"
BARRIERS = "go/"
MACHINES = "machines/"
INSTRUCTIONS = "instructions/"
ASIDE = "state/aside/"
PROBES = "state/probe/"
OUTPUTS = "output/"
USAGE = "usage/"
WHEELS = "wheels/"
HISTORY = "history/"
RECENT = "history/recent/"

TRACES = (SNAPSHOTS, EVENTS, RESULTS, ANSWERS, SPECS, INSTRUCTIONS, BARRIERS, VIEWS)
"""Prefixes that only a bastion writes: an object below one proves that there was a root."""

_DIGITS = 12
"""Enough digits for a log of 1 TB by byte offset and for a million years of events."""
_ASIDE_BYTES = 200
"""Longest key that is a whole name under `state/aside/`: a part of a key takes 240 bytes."""

_N = r"(\d{1,15})"
"""A number in a key. Names are untrusted, and JSON readers keep 15 digits exactly."""

_SEGMENT = pattern(rf"logs/[^/]+/[^/]+/a{_N}/r{_N}/h{_N}/p{_N}/{_N}\.log", re.ASCII)
_OF_JOB_LOG = pattern(
    rf"logs/([^/]+)/([^/]+)/(?:a{_N}/r{_N}/h{_N}/(?:p{_N}/{_N}\.log|usage/{_N}\.json\.gz)"
    rf"|x[^/]+/(?:end|{_N}\.log))",
    re.ASCII,
)
_USAGE = pattern(rf"logs/[^/]+/[^/]+/a{_N}/r{_N}/h{_N}/usage/{_N}\.json\.gz", re.ASCII)
_MACHINE_USE = pattern(r"usage/([^/]+)/([^/]+)\.json")
_HOST = rf"a{_N}-([^/]+)/r{_N}/h{_N}"
_REGISTER = pattern(rf"run/([^/]+)/([^/]+)/([^/]+)/{_HOST}/(claim|end)", re.ASCII)
_BARRIER = pattern(rf"go/([^/]+)/([^/]+)/a{_N}-([^/]+)", re.ASCII)
_INSTRUCTIONS = pattern(rf"instructions/([^/]+)/([^/]+)/{_N}/{_N}\.json", re.ASCII)
_LIFE = pattern(rf"machines/([^/]+)/([^/]+)/life/{_N}", re.ASCII)
_OF_REQUEST = pattern(r"(instructions/[^/]+/[^/]+/argv|machines/[^/]+/[^/]+/check)/[^/]+")
_BELL = pattern(rf"inbox/_bell/([^/]+)/([^/]+)/{_N}-{_N}\.json", re.ASCII)
_ANSWER = pattern(r"results/([^/]+)/([^/]+)/([^/]+)\.json")
_SNAPSHOT = pattern(rf"state/snap/([^/]+)/{_N}\.json", re.ASCII)
_EVENTS = pattern(rf"state/log/{_N}\.jsonl", re.ASCII)
_RESULT = pattern(r"jobs/([^/]+)/([^/]+)/result\.json")
_SPEC = pattern(r"launches/([^/]+)/([^/]+)/spec\.json")
_DAY_FILE = pattern(rf"history/([a-z]+)/dt=(\d{{4}}-\d\d-\d\d)/{_N}-{_N}\.parquet", re.ASCII)
_RECENT_FILE = pattern(rf"history/recent/([a-z]+)/{_N}-{_N}\.parquet", re.ASCII)
_SAVED = pattern(rf"output/[^/]+/[^/]+/saved/a{_N}/r{_N}/h{_N}/{_N}\.json", re.ASCII)


def folder_of(key: str) -> str:
    """Return the prefix of the objects next to `key`."""
    return f"{key.rpartition('/')[0]}/"


def inventory(name: str) -> str:
    """Return the key of the inventory called `name` next to the configuration."""
    return f"{folder_of(CONFIG)}{name}"


def request(project: str, user: str, ulid: str, verb: str) -> str:
    """Return the key of a user's request."""
    return f"inbox/{project}/{user}/{ulid}.{verb}.json"


def parse_request(key: str) -> RequestName | None:
    """Return the arguments of `request` for this key, or None if the key is not a request's."""
    parts = key.split("/")
    if len(parts) != 4 or not key.startswith(INBOX) or not parts[3].endswith(".json"):
        return None
    ulid, dot, verb = parts[3].removesuffix(".json").partition(".")
    if not dot or not verb or len(ulid) != 26:
        return None
    return RequestName(project=parts[1], user=parts[2], ulid=ulid, verb=verb)


def user_inbox(project: str, user: str) -> str:
    """Return the prefix of one user's requests."""
    return f"inbox/{project}/{user}/"


def bells(machine: str) -> str:
    """Return the prefix of the bells of a machine."""
    return f"{BELLS}{pool_of(machine)}/{machine}/"


def bell(machine: str, life: int, number: int) -> str:
    """Return the key of the `number`-th bell of a keeper life."""
    return f"{bells(machine)}{life:06d}-{number:0{_DIGITS}d}.json"


def parse_bell(key: str) -> tuple[str, int, int] | None:
    """Return (machine, life, number) of a bell's key; None for others or outside its pool."""
    found = _BELL.fullmatch(key)
    if found is None or found[1] != pool_of(found[2]):
        return None
    return found[2], int(found[3]), int(found[4])


def answer(project: str, user: str, ulid: str) -> str:
    """Return the key of the answer to a request."""
    return f"results/{project}/{user}/{ulid}.json"


def parse_answer(key: str) -> tuple[str, str, str] | None:
    """Return (project, user, ulid) of an answer's key, or None for other keys."""
    found = _ANSWER.fullmatch(key)
    return None if found is None else (found[1], found[2], found[3])


def events(first: int) -> str:
    """Return the key of the sealed segment of events that starts with number `first`."""
    return f"{EVENTS}{first:0{_DIGITS}d}.jsonl"


def parse_events(key: str) -> int | None:
    """Return the number of a segment's first event, or None if the key is not a segment's."""
    found = _EVENTS.fullmatch(key)
    return None if found is None else int(found[1])


def day_file(table: str, date: str, first: int, after: int) -> str:
    """Return the key of the rows of `table` from events `[first, after)`, all of `date`."""
    return f"{HISTORY}{table}/dt={date}/{padded(first)}-{padded(after)}.parquet"


def recent_file(table: str, first: int, after: int) -> str:
    """Return the key of the rows of `table` from `[first, after)`, of days that are not over."""
    return f"{RECENT}{table}/{padded(first)}-{padded(after)}.parquet"


def parse_history(key: str) -> HistoryFile | None:
    """Return the parts of the key of a file of the record, or None for other keys."""
    if (found := _DAY_FILE.fullmatch(key)) is not None:
        table, date, first, after = found.groups()
    elif (found := _RECENT_FILE.fullmatch(key)) is not None:
        table, first, after = found.groups()
        date = ""
    else:
        return None
    return HistoryFile(table=table, date=date, first=int(first), after=int(after))


def snapshot(date: str, seq: int) -> str:
    """Return the key of the copy of root as of commit `seq`, taken on `date` (YYYY-MM-DD)."""
    return f"{SNAPSHOTS}{date}/{seq:0{_DIGITS}d}.json"


def parse_snapshot(key: str) -> tuple[str, int] | None:
    """Return (date, seq) of a copy of root, or None if the key is not one."""
    found = _SNAPSHOT.fullmatch(key)
    return None if found is None else (found[1], int(found[2]))


def aside(key: str) -> str:
    """Return the key under which an unreadable object is set aside, for a name of any length."""
    name = key.replace("/", "!")
    if len(name.encode()) > _ASIDE_BYTES:
        from hashlib import sha256  # loads OpenSSL

        name = f"{name[: _ASIDE_BYTES // 8]}!{sha256(key.encode()).hexdigest()}"
    return f"{ASIDE}{name}"


def spec(project: str, launch: str) -> str:
    """Return the key of the checked spec of a launch."""
    return f"launches/{project}/{launch}/spec.json"


def origin(digest: str) -> str:
    """Return the key of a launch's origin, named by the sha256 of its bytes."""
    return f"{BUNDLES}origins/{digest}"


def wheel(digest: str, name: str) -> str:
    """Return the key of a wheel of Bastion by the sha256 of its bytes and its file name."""
    return f"{WHEELS}{digest}/{name}"


def parse_spec(key: str) -> tuple[str, str] | None:
    """Return (project, launch) of a spec's key, or None for other keys."""
    found = _SPEC.fullmatch(key)
    return None if found is None else (found[1], found[2])


def result(project: str, job: str) -> str:
    """Return the key of a job's final record, a tombstone that makes late duplicates harmless."""
    return f"jobs/{project}/{job}/result.json"


def parse_result(key: str) -> tuple[str, str] | None:
    """Return (project, job) of a final record's key, or None for other keys."""
    found = _RESULT.fullmatch(key)
    return None if found is None else (found[1], found[2])


def results_of(project: str) -> str:
    """Return the prefix of all final records of a project."""
    return f"jobs/{project}/"


def after(prefix: str) -> str:
    """
    Return the first possible name after all names that begin with `prefix`, which ends in `/`.

    A list that starts there finds the next project, or the next process, in one call.
    """
    return f"{prefix[:-1]}0"


def go(project: str, job: str, number: int, nonce: str) -> str:
    """Return the key of the start barrier of an attempt on more than one host."""
    return f"{BARRIERS}{project}/{job}/a{number}-{nonce}"


def claim(
    project: str, job: str, number: int, nonce: str, *, replica: int, host: int, machine: str
) -> str:
    """Return the key of the right to start one host of an attempt, placed on `machine`."""
    attempt = f"{RUNS}{pool_of(machine)}/{project}/{job}/a{number}-{nonce}"
    return f"{attempt}/r{replica}/h{host}/claim"


def end(
    project: str, job: str, number: int, nonce: str, *, replica: int, host: int, machine: str
) -> str:
    """Return the key of the end of one host of an attempt, placed on `machine`."""
    attempt = f"{RUNS}{pool_of(machine)}/{project}/{job}/a{number}-{nonce}"
    return f"{attempt}/r{replica}/h{host}/end"


def end_beside(claim: str) -> str:
    """Return the key of the end of the host whose claim has the key `claim`."""
    return f"{folder_of(claim)}end"


def parse_register(key: str) -> RegisterName | None:
    """Return the register that `key` names, or None for other keys."""
    if (found := _REGISTER.fullmatch(key)) is not None:
        pool, project, job, attempt, nonce, replica, host, kind = found.groups()
        return RegisterName(
            pool=pool,
            project=project,
            job=job,
            attempt=int(attempt),
            nonce=nonce,
            replica=int(replica),
            host=int(host),
            kind=kind,
        )
    if (found := _BARRIER.fullmatch(key)) is not None:
        project, job, attempt, nonce = found.groups()
        return RegisterName(project=project, job=job, attempt=int(attempt), nonce=nonce, kind="go")
    return None


def lives(machine: str) -> str:
    """Return the prefix of a machine's keeper lives."""
    return f"{MACHINES}{pool_of(machine)}/{machine}/life/"


def life(machine: str, number: int) -> str:
    """Return the key of the `number`-th keeper life of a machine."""
    return f"{lives(machine)}{number:06d}"


def check(machine: str, ulid: str) -> str:
    """Return the key of what an agent found when an admin had its machine checked."""
    return f"{MACHINES}{pool_of(machine)}/{machine}/check/{ulid}"


def is_of_request(key: str) -> bool:
    """Whether `key` is that of a check's outcome or a long command, which serve one request."""
    return _OF_REQUEST.fullmatch(key) is not None


def parse_life(key: str) -> tuple[str, int] | None:
    """Return (machine, number) of a keeper life's key; None for others or outside its pool."""
    found = _LIFE.fullmatch(key)
    if found is None or found[1] != pool_of(found[2]):
        return None
    return found[2], int(found[3])


def instructions(machine: str, life: int, number: int) -> str:
    """Return the key of the `number`-th batch of instructions to one keeper life."""
    batch = f"{life}/{number:0{_DIGITS}d}.json"
    return f"{INSTRUCTIONS}{pool_of(machine)}/{machine}/{batch}"


def argv(machine: str, ulid: str, digest: str) -> str:
    """Return the key of a command's arguments that are too long for its instruction."""
    return f"{INSTRUCTIONS}{pool_of(machine)}/{machine}/argv/{ulid}-{digest}"


def parse_instructions(key: str) -> tuple[str, int, int] | None:
    """Return (machine, life, number) of a batch's key; None for others or outside its pool."""
    found = _INSTRUCTIONS.fullmatch(key)
    if found is None or found[1] != pool_of(found[2]):
        return None
    return found[2], int(found[3]), int(found[4])


def view(name: str) -> str:
    """Return the key of a published view: `queue`, `pool`, `status`, `quota`."""
    return f"{VIEWS}{name}.json"


def log(project: str, job: str, number: int, *, replica: int, host: int, process: int) -> str:
    """Return the prefix of the log segments of one process of an attempt."""
    return f"{job_logs(project, job)}a{number}/r{replica}/h{host}/p{process}/"


def usage(project: str, job: str, number: int, *, replica: int, host: int) -> str:
    """Return the prefix of the samples of one host of an attempt."""
    return f"{job_logs(project, job)}a{number}/r{replica}/h{host}/usage/"


def usage_segment(prefix: str, number: int) -> str:
    """Return the key of the `number`-th segment of samples with this prefix."""
    return f"{prefix}{padded(number)}.json.gz"


def parse_usage(key: str) -> UsageName | None:
    """Return the parts of the key of a segment of samples, or None for other keys."""
    found = _USAGE.fullmatch(key)
    if found is None:
        return None
    attempt, replica, host, number = map(int, found.groups())
    return UsageName(attempt=attempt, replica=replica, host=host, number=number)


def machine_use(machine: str) -> str:
    """Return the key of the current use of a machine, which its agent replaces."""
    return f"{USAGE}{pool_of(machine)}/{machine}.json"


def parse_machine_use(key: str) -> str | None:
    """Return the machine of such a key; None for others or outside its pool."""
    found = _MACHINE_USE.fullmatch(key)
    return found[2] if found is not None and found[1] == pool_of(found[2]) else None


def command_log(project: str, job: str, command: str) -> str:
    """Return the prefix of the output of a command that a user ran next to a job's processes."""
    return f"{job_logs(project, job)}x{command}/"


def command_end(prefix: str) -> str:
    """Return the key of the end of the command with this log prefix."""
    return f"{prefix}end"


def job_logs(project: str, job: str) -> str:
    """Return the prefix of all logs of a job."""
    return f"logs/{project}/{job}/"


def job_of_log(key: str) -> tuple[str, str] | None:
    """Return (project, job) of a key of a job's logs or samples; None for other keys."""
    found = _OF_JOB_LOG.fullmatch(key)
    return None if found is None else (found[1], found[2])


def parse_log(key: str) -> LogStream | None:
    """Return the stream of a log segment, or None if the key is not a segment's."""
    found = _SEGMENT.fullmatch(key)
    if found is None:
        return None
    attempt, replica, host, process = map(int, found.groups()[:4])
    return LogStream(attempt=attempt, replica=replica, host=host, process=process)


def bastion_log(bastion: str) -> str:
    """Return the key of the tail of a bastion's own log, where no project has its logs."""
    return f"{LOGS}{bastion}" if bastion.endswith("-bastion") else f"{LOGS}_bastion/{bastion}/tail"


def bastion_log_segments(bastion: str) -> str:
    """Return the prefix of a bastion's own log segments."""
    return f"{LOGS}_bastion/{bastion}/all/"


def outputs_of(project: str) -> str:
    """Return the prefix of the outputs of all jobs of a project."""
    return f"{OUTPUTS}{project}/"


def output(project: str, job: str) -> str:
    """Return the prefix of the outputs that a job keeps from attempt to attempt."""
    return f"{outputs_of(project)}{job}/"


def output_content(project: str, job: str, digest: str) -> str:
    """Return the key of a part of a file that a job keeps."""
    return f"{output(project, job)}content/{digest}"


def saved_outputs(project: str, job: str) -> str:
    """Return the prefix of the lists of files that a job keeps."""
    return f"{output(project, job)}saved/"


def saved_output(
    project: str, job: str, attempt: int, *, replica: int, host: int, number: int
) -> str:
    """Return the key of the `number`-th list of the files that one host of an attempt kept."""
    return f"{saved_outputs(project, job)}a{attempt}/r{replica}/h{host}/{padded(number)}.json"


def parse_saved_output(key: str) -> SavedOutputName | None:
    """Return the arguments of `saved_output` for this key, or None if the key is not one."""
    found = _SAVED.fullmatch(key)
    if found is None:
        return None
    attempt, replica, host, number = map(int, found.groups())
    return SavedOutputName(attempt=attempt, replica=replica, host=host, number=number)


def padded(number: int) -> str:
    """Return `number` padded with zeros, as it appears in names that sort."""
    return f"{number:0{_DIGITS}d}"
