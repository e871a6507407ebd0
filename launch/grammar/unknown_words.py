"""
Unknown verbs and flags: refused, with the most likely command as a hint.

Words of other systems take precedence over similar spellings. A destructive verb is never suggested
for a misspelled one.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from launch.errors import UsageError
from launch.grammar.foreign_words import (
    ALONE,
    DESTRUCTIVE,
    FLAGS,
    NOT_YET,
    NOUNS,
    OF_ALL_JOBS,
    OF_LISTS,
    OF_SIMULATE,
    OF_THE_VM,
    PHRASES,
    PROGRAMS,
    VERBS,
)
from launch.grammar.program_words import program_command
from launch.grammar.slurm_words import slurm_command
from quota.pattern import pattern

_YAML = (".yaml", ".yml")
_DEVICE = pattern(r"(?:[abghltv]\d+|mi\d+|rtx|tpu)[\w-]*")
"""Names of device types: `h100`, `a100-80gb`, `v5e`, `mi300x`."""
_MORE = "more: bastion help come-from-another-system"
_FLAG_NAME = pattern(r"--[\w-]+")
_FLAG = pattern(r"--?\w+")
_PORTS = pattern(r"\d+(?::\d+)?")
_OF_A_JOB = ("-n", "--name", "--job", "--jobs", "--job_name")
_SENDS_CODE = ("--code", "--workdir", "-D", "--chdir", "--bundler")
_NEAR = 0.7
"""The similarity for a suggestion: `submti` is like `submit`, `resume` is not like `restore`."""
_LONG = 4
"""Characters of a flag that another word may begin with by intention: `graceperiod`."""
_OF_ANY = ("all", "name")
"""Words that end the flags of anything: `user_name` is not `name`."""
_FEW = 3
"""The most flags that a hint names."""


def refuse_unknown(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """
    Refuse flags that `parser` does not have, with our flag for them or the nearest.

    Raises:
        UsageError: There are any words.
    """
    if not words:
        return
    name = words[0].partition("=")[0]
    if name.startswith("-"):
        flags = dict.fromkeys(w.partition("=")[0] for w in words if w.startswith("-"))
        if len(flags) == 1:
            raise UsageError(f"unknown flag {name}", hint=_flag_hint(parser, name, words))
        told = {flag: _flag_hint(parser, flag, words) for flag in flags}
        page = f"{parser.prog} --help"
        near = [f"{flag}: {hint}" for flag, hint in told.items() if hint != page]
        raise UsageError(f"unknown flags {', '.join(flags)}", hint="; ".join(near) or page)
    hint = f"{parser.prog} --help"
    if ours := OF_ALL_JOBS.get(parser.prog.rpartition(" ")[2]):
        hint = f"for one job: bastion {ours} {name}"
    elif getattr(parser, "behind", "") == "COMMAND...":
        line = words[0] if len(words) == 1 else shlex.join(words)
        hint = f"give a command after --: {parser.prog} JOB -- {line}"
    raise UsageError(f"unknown argument {name}", hint=hint)


def refuse_command(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """
    Refuse a command after `--` if the verb takes none; it would be ignored silently.

    Raises:
        UsageError: There are any words.
    """
    if not words:
        return
    told = shlex.join(words)
    hint = f"{parser.prog} --help"
    if parser.prog == "bastion rerun":
        hint = f"a rerun keeps its command; for another one: bastion launch -- {told}"
    raise UsageError(f"{parser.prog} takes nothing after --, but {told} was given", hint=hint)


def _flag_hint(parser: argparse.ArgumentParser, name: str, words: Sequence[str]) -> str:
    takes = parser._option_string_actions
    own = OF_SIMULATE if parser.prog == "bastion simulate" else {}
    own = OF_LISTS if "--state" in takes else own
    ours = own.get(name) or FLAGS.get(name, "")
    if ours and not ours.startswith("-"):
        return ours
    if ours and _FLAG.findall(ours)[0] in takes:
        return f"use {ours}"
    if name in _OF_A_JOB and any(action.dest == "job" for action in parser._actions):
        return f"omit it: give the job alone, {parser.prog} JOB"
    known = [
        option.lstrip("-")  # all flags have dashes, so these do not count as similarity
        for action in parser._actions
        if action.help != argparse.SUPPRESS
        for option in action.option_strings
    ]
    kind = name.lstrip("-").lower().replace("_", "-")
    typed = getattr(
        parser, "typed", words
    )  # the unknown words do not include a value after a space
    if "resources" in known and _DEVICE.fullmatch(kind):
        return f"to ask for a type of device: --resources={kind}={_number(name, typed)}"
    meant = _alike(name.lstrip("-"), [each for each in known if len(each) > 1])
    told = " or ".join(f"--{each}" for each in meant)
    return f"did you mean {told}?" if meant else f"{parser.prog} --help"


def _alike(name: str, known: Sequence[str]) -> list[str]:
    """
    Return the flag spelled most like `name`, or else the one whose words it begins or ends with.

    Or else the few that have all of its words. A negated flag only suggests negated ones.
    """
    import difflib

    known = [each for each in known if _is_negated(each) == _is_negated(name)]
    if near := difflib.get_close_matches(name, known, n=1, cutoff=_NEAR):
        return near
    words = _words(name)
    begun = [each for each in known if words[: len(own := _words(each))] == own]
    ended = [
        each
        for each in known
        if words[-len(own := _words(each)) :] == own and own[0] not in _OF_ANY
    ]
    joined = [each for each in known if len(each) >= _LONG and _bare(name).startswith(_bare(each))]
    if found := begun or ended or joined:
        return [max(found, key=len)]
    having = [each for each in known if set(words) <= set(_words(each))]
    return having if len(having) <= _FEW else []


def _is_negated(name: str) -> bool:
    return _words(name)[0] in ("no", "not")


def _words(name: str) -> list[str]:
    """Return the words of a flag, in the singular."""
    words = name.lower().replace("-", "_").split("_")
    return [f"{w[:-3]}y" if w.endswith("ies") else w.removesuffix("s") for w in words]


def _bare(name: str) -> str:
    """Return a flag without the marks between its words."""
    return name.lower().replace("-", "").replace("_", "")


def _number(flag: str, words: Sequence[str]) -> str:
    """Return the number given to `flag` in `words`; `N` if there is none."""
    at = next(i for i, word in enumerate(words) if word.partition("=")[0] == flag)
    given = words[at].partition("=")[2] or next(iter(words[at + 1 :]), "")
    return given if given.isascii() and given.isdecimal() else "N"


def refuse_unknown_verb(
    words: Sequence[str],
    verbs: Sequence[str],
    command: Sequence[str] = (),
    typed: Sequence[str] = (),
) -> None:
    """
    Refuse the first of `words` if it is not a verb, with our command for it or the nearest verb.

    Args:
        words: The words before `--`.
        verbs: The existing verbs.
        command: The words after `--`.
        typed: The words with flags as typed, for a command that the hint repeats.

    Raises:
        UsageError: It is not one of `verbs`.
    """
    word, *rest = words
    if word not in verbs:
        hint = hint_instead_of(word.lower(), rest, verbs) or "bastion --help"
        if command and hint.endswith(" -- COMMAND"):
            hint = f"{hint.removesuffix('COMMAND')}{' '.join(map(_quoted, command))}"
        own = _with_own_flags(hint, words, typed)
        raise UsageError(f"unknown verb {word!r}", hint=_with_code(own))


def _with_own_flags(hint: str, words: Sequence[str], typed: Sequence[str]) -> str:
    """Return `hint` with the flags of the command after `--` as they were typed."""
    ours, dashes, command = hint.partition(" -- ")
    names = {
        word.partition("=")[0]: own.partition("=")[0]
        for word, own in zip(words, typed)
        if own.startswith("--")
    }
    return ours + dashes + _FLAG_NAME.sub(lambda found: names.get(found[0], found[0]), command)


def _with_code(hint: str) -> str:
    """Return `hint` with `--code=.` if its command names a local script."""
    ours, dashes, command = hint.partition(" -- ")
    verb, *flags = ours.split()[1:] or [""]
    has_code = any(flag.startswith(_SENDS_CODE) for flag in flags)
    if verb not in ("launch", "run") or has_code or not any(map(_lies_here, command.split())):
        return hint
    return f"{ours} --code=.{dashes}{command}"


def _lies_here(word: str) -> bool:
    return word.endswith((".py", ".sh")) and not word.startswith("/") and Path(word).is_file()


def hint_instead_of(word: str, rest: Sequence[str], verbs: Sequence[str]) -> str:
    """Return what to type instead of an unknown verb; empty if nothing is similar."""
    if word in verbs:
        return f"bastion {' '.join([word, *rest])}"
    key = word.replace("-", "_")
    if key == "flambe" and rest and rest[0].endswith(_YAML):
        return f"bastion launch --code=. -- flambe {rest[0]}; it runs on machines of a pool"
    if word.endswith(_YAML):
        return f"bastion launch --code=. -- COMMAND; {_MORE}"
    if key in PROGRAMS and rest:
        if key == "bastion" and rest[0] in OF_THE_VM:  # `axlearn gcp bastion create`
            return f"bastion {shlex.join(rest)}"
        return _of_program(key, list(rest), verbs)
    if ours := slurm_command(key, rest):
        return f"bastion {ours}"
    if rest and (phrase := PHRASES.get((key, rest[0].lower()))):
        return _in_place(phrase, rest[1:])
    if key in NOT_YET:
        return f"Bastion has no such verb; instead: {NOT_YET[key]}"
    if rest and (ours := program_command(key, rest)):  # sbatch, srun
        return f"bastion {ours}"
    if key in VERBS:
        return _in_place(VERBS[key], rest)
    if word.endswith((".toml", ".py", ".sbatch", ".json")):
        return _of_file(word, rest)
    return _nearest(word, verbs) or _as_command(word, rest)


def _forwarding(rest: Sequence[str]) -> str:
    """Return the command that forwards a port of a job; others write the remote port last."""
    ports = [word for word in rest if _PORTS.fullmatch(word)]
    jobs = [word for word in rest if not word.startswith("-") and word not in ports]
    port = ":".join(reversed(ports[0].split(":"))) if ports else "PORT"
    return f"bastion ssh {jobs[-1].rpartition('/')[2] if jobs else 'JOB'} --forward={port}"


def _of_file(file: str, rest: Sequence[str]) -> str:
    """Return the command that launches a file, or runs a script as a job if it submits nothing."""
    runs = file.endswith(".py") and not submits(Path(file))
    before = ["--code=.", "--", "python3"] if runs else []
    return f"bastion launch {shlex.join([*before, file, *rest])}"


def submits(script: Path) -> bool:
    """Whether a script names a package that submits launches; a missing file does not."""
    try:
        text = script.read_bytes()
    except OSError:
        return False
    return b"bastion" in text or b"clusterfudge" in text


def _as_command(word: str, rest: Sequence[str]) -> str:
    """Return the command that runs these words as a job, if the first is a local program."""
    import shutil

    if not shutil.which(word):
        return ""
    code = "--code=. " if any(each.endswith((".py", ".sh")) for each in rest) else ""
    return f"bastion run {code}-- {shlex.join([word, *rest])}"


def _nearest(word: str, verbs: Sequence[str]) -> str:
    """Suggest the verb with the most similar spelling, except destructive ones."""
    import difflib

    harmless = [verb for verb in verbs if verb not in DESTRUCTIVE]
    theirs = [verb for verb in VERBS if VERBS[verb].split()[0] not in DESTRUCTIVE]
    near = difflib.get_close_matches(word, [*harmless, *theirs], n=1, cutoff=_NEAR)
    if not near:
        return ""
    return f"did you mean bastion {VERBS.get(near[0], near[0])}?"


def _of_program(program: str, words: list[str], verbs: Sequence[str]) -> str:
    """Return what to type instead of the words after `sky`, `kubectl` and similar programs."""
    words = [word.removeprefix("pod/").removeprefix("job/") for word in words]
    verb, *rest = words
    if verb in PROGRAMS and rest and verb != "bastion":  # axlearn gcp launch
        return hint_instead_of(verb, rest, verbs)
    if {"-h", "--help"} & set(words):
        page = "create" if verb == "bastion" else verb
        return f"bastion {page} --help" if page in verbs else ""
    if ours := program_command(program, words):
        return f"bastion {ours}"
    if phrase := PHRASES.get((verb, rest[0].lower() if rest else "")):
        return _in_place(phrase, [word for word in rest[1:] if not word.endswith(_YAML)])
    if verb not in verbs:
        others = [word for word in rest if not word.endswith(_YAML)]  # the file of a cluster
        return hint_instead_of(verb.lower(), others, verbs)
    if verb in ("delete", "stop", "down"):
        return _in_place("cancel JOB", rest) if rest else ""
    if verb in OF_THE_VM:
        return ""
    if verb in DESTRUCTIVE:
        return ""
    if verb in ("launch", "run"):
        if any(word.endswith(_YAML) for word in rest):
            return f"bastion {verb} --code=. -- COMMAND; {_MORE}"
        flags, own = _flags_before(rest)
        if own and own[0].endswith(".py"):
            own = ["python3", *own]
            flags.append("--code=.")
        # The words do not include those after --.
        return f"bastion {shlex.join([verb, *flags, '--', *(own or ['COMMAND'])])}"
    return f"bastion {shlex.join(word for word in words if not word.endswith(_YAML))}"


def _flags_before(rest: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the flags that `rest` begins with, except those in `ALONE`, and the other words."""
    flags, words = [], list(rest)
    while words and words[0].startswith("-"):
        flags.append(words.pop(0))
        takes = "=" not in flags[-1] and (len(flags[-1]) == 2 or flags[-1].startswith("--"))
        if takes and flags[-1] not in ALONE and words and not words[0].startswith("-"):
            flags.append(words.pop(0))
    return [flag for flag in flags if flag not in ALONE], words


def _quoted(word: str) -> str:
    """Return a word quoted for a shell as people do it."""
    if "'" in word and not set(word) & set('"$`\\!'):
        return f'"{word}"'
    return shlex.quote(word)


def _in_place(command: str, rest: Sequence[str]) -> str:
    """Return our command with the user's words as its jobs, file or command, if unambiguous."""
    if command.endswith("=PORT"):
        return _forwarding(rest)
    own, _, place = command.rpartition(" ")
    if place == "JOB" and rest and rest[0] in NOUNS:
        rest = rest[1:]
    if place == "COMMAND" and rest and rest[0].endswith(".py"):
        return f"bastion {own.removesuffix(' --')} --code=. -- python3 {' '.join(rest)}"
    if command.endswith("=USER") and rest:
        return f"bastion {command.removesuffix('USER')}{rest[0]}"
    if rest and rest[0].startswith("-") and (place == "COMMAND" or place.startswith("FILE.")):
        flags, words = _flags_before(rest)
        between = ["--"] if place == "COMMAND" else []
        if words:
            verb = own.removesuffix(" --")
            return f"bastion {verb} {shlex.join([*flags, *between, *words])}"
    is_place = place in ("JOB", "COMMAND", "MACHINE") or place.startswith("FILE.")
    if is_place and rest and not any(word.startswith("-") for word in rest):
        command = f"{own} {' '.join(rest)}"
    return f"bastion {command}"
