"""
The grammar of the command line, and the errors for words that do not fit it.

Flags are written with underscores (`--instance_type`); dashes mean the same.
`--flagfile=FILE` is absl's. The words after `--` are the user's command and are not changed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from launch.errors import UsageError
from launch.grammar.vocabulary import EVERY_VERB_PAGE, PAGES, SUMMARIES

argparse._ = lambda text: text  # type: ignore[attr-defined]
"""
Our messages are English, and so are argparse's. Python ships no translations of its messages, and
looking for some takes longer than parsing a command line.
"""

Run = Callable[[argparse.Namespace], int]

CONNECTION, OUTPUT, GENERAL = "which bastion", "output", "general"
SHARED = (CONNECTION, OUTPUT, GENERAL)
"""The groups of flags that verbs share."""


class Parser(argparse.ArgumentParser):
    """
    An argument parser that raises `UsageError`, with our messages, instead of printing its usage.

    Text that only help shows is built when help is shown: most commands run without it.
    """

    _shows_help = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.example = ""
        """Example command lines of a verb; empty for the root."""
        self.told = ""
        """The description of a verb, in sentences."""
        self.behind = ""
        """What can follow `--`; empty: nothing."""
        self.register("type", int, _whole_number)
        self.typed: Sequence[str] = ()
        """The words to parse."""

    def parse_known_intermixed_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the words, and keep them for error messages."""
        self.typed = args or ()
        return super().parse_known_intermixed_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Raise a `UsageError` with a hint."""
        told = message.removeprefix("argument ")
        names, colon, rest = told.partition(": ")
        if message != told and (typed := self._typed(names.split("/"))):
            told = f"{typed}{colon}{rest}"
        flag, _, value = told.partition(": ignored explicit argument ")
        if value:
            raise UsageError(
                f"{flag}: takes no value, but {value} was given",
                hint=f"give {flag} without a value",
            )
        if told.endswith(": expected one argument"):
            told = f"{told.removesuffix(': expected one argument')} needs a value"
            from launch.grammar.foreign_words import NEEDS_VALUE

            if meant := NEEDS_VALUE.get(told.removesuffix(" needs a value")):
                raise UsageError(told, hint=meant)
        hint = f"{self.prog} --help"
        missing = told.removeprefix("the following arguments are required: ")
        if missing != told:
            told = f"{missing} {'are' if ', ' in missing else 'is'} missing"
            if allowed := self._allowed(missing.partition(", ")[0]):
                told += f"; it is {allowed}"
            if missing.startswith("JOB"):
                hint = f"bastion list --all shows the jobs; {hint}"
            if (action := self._option_string_actions.get(missing)) is not None:
                told += f"; it is the {action.help}"
                *jobs, last = ("", *self.typed)
                is_value = len(jobs) > 1 and last.isdecimal()
                hint = f"{self.prog}{' '.join(jobs)} {missing}={last}" if is_value else self.example
        raise UsageError(told, hint=hint)

    def _typed(self, names: Sequence[str]) -> str:
        """The names of one flag that were typed; argparse reports all names of the flag."""
        written = {word.partition("=")[0] for word in self.typed}
        return "/".join(name for name in names if name in written)

    def _allowed(self, name: str) -> str:
        """The words that a positional argument can be; empty if any word is allowed."""
        for action in self._actions:
            if action.choices and name in (action.metavar, action.dest):
                *words, last = map(str, action.choices)
                return f"{', '.join(words)} or {last}" if words else last
        return ""

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Keep `--name=--` as it is typed: argparse drops the `--` and leaves an empty list."""
        if action.option_strings and arg_strings == ["--"]:
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return value
        return super()._get_values(action, arg_strings)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, _Listed):
            return  # it checks its values one by one
        self.check_choice(action, value)

    def check_choice(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is not one of the choices of `action`."""
        if action.choices is not None and value not in action.choices:
            from quota.choice import choose

            allowed = [str(word) for word in action.choices]
            words = choose(str(value), allowed, most=len(allowed))
            raise argparse.ArgumentError(action, f"{value!r} is unknown, {words}")

    def format_help(self) -> str:
        """Help with one line of usage; flags are listed below it, the shared ones last."""
        self._action_groups.sort(key=lambda group: group.title in SHARED)  # keeps their order
        if self.example:
            words = [
                _positional(action)
                for action in self._actions
                if not action.option_strings and action.help != argparse.SUPPRESS
            ]
            command = [f"[-- {self.behind}]"] if self.behind else []
            self.usage = " ".join([self.prog, *words, "[flags]", *command])
            self.description = _description(self.told, self.example)
        self._shows_help = True
        return super().format_help()

    def _get_formatter(self) -> argparse.HelpFormatter:
        """A formatter of fixed width until help is shown: argparse uses one for each added flag."""
        if self._shows_help:
            return super()._get_formatter()
        return argparse.HelpFormatter(self.prog, width=_HELP_COLUMNS)


class Verbs:
    """
    The tree of verbs while it is built.

    Args:
        parser: Its root.
        word: The only requested verb; empty: all.
    """

    def __init__(self, parser: Parser, word: str = "") -> None:
        self._word = word
        self._verbs = parser.add_subparsers(
            dest="verb",
            metavar="VERB",
            parser_class=Parser,
            prog="bastion",
            title=argparse.SUPPRESS,
        )
        self.root = parser
        """The root of the tree."""
        self.parsers: dict[str, Parser] = {}
        """Parsers by the name of the verb, without aliases."""

    def wants(self, name: str) -> bool:
        """Whether this verb is requested: one with many flags takes a while to build."""
        return self._word in ("", name)

    def add(
        self,
        name: str,
        run: Run,
        *,
        example: str,
        text: str = "",
        aliases: Sequence[str] = (),
        connects: bool = True,
        prints: bool = False,
    ) -> Parser:
        """
        Add a verb.

        Args:
            name: Its name; the vocabulary has its summary.
            run: The function that runs it and returns the exit code.
            example: One or more command lines.
            text: Further sentences for its help.
            aliases: Its other names.
            connects: Whether it needs a bastion, so takes `--root` and related flags.
            prints: Whether it prints data, so takes `--output` and related flags.
        """
        summary = SUMMARIES[name]
        verb: Parser = self._verbs.add_parser(
            name,
            help=summary,
            aliases=list(aliases),
            usage="",  # otherwise argparse builds one for its errors, which are ours
            epilog=f"more: bastion help {PAGES.get(name, EVERY_VERB_PAGE)}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        verb.example = example
        verb.told = f"{summary[:1].upper()}{summary[1:]}.{' ' if text else ''}{text}"
        verb.set_defaults(run=run, verb_name=name)
        add_general_flags(verb, connects=connects, prints=prints)
        self.parsers[name] = verb
        return verb


Group = argparse._ActionsContainer
"""A parser, or a group of its flags."""


class _Once(argparse.Action):
    """A flag with one value; two different values are refused."""

    def __call__(self, _: object, found: argparse.Namespace, value: object, *__: object) -> None:
        given: dict[str, object] = found.__dict__.setdefault("given_once", {})
        if self.dest in given and given[self.dest] != value:
            raise argparse.ArgumentError(
                self, f"given twice, as {given[self.dest]} and as {value}; give it once"
            )
        found.given_once = {**given, self.dest: value}
        setattr(found, self.dest, value)


class _Listed(argparse.Action):
    """A flag that can be repeated, or have several values separated by commas."""

    read: Callable[[str], str] = str

    def __call__(self, parser: Any, found: argparse.Namespace, value: Any, *__: object) -> None:
        values = [self.read(part.strip()) for part in value.split(",") if part.strip()]
        for each in values or [value]:
            parser.check_choice(self, each)
        if not values:
            raise argparse.ArgumentError(self, f"{value!r} has no value")
        setattr(found, self.dest, [*getattr(found, self.dest), *values])


def text(group: Group, name: str, meaning: str, *, metavar: str = "TEXT") -> None:
    """Add a flag with a text value; empty by default."""
    group.add_argument(*name.split(), action=_Once, default="", metavar=metavar, help=meaning)


def number(group: Group, name: str, meaning: str, *, default: int | None = None) -> None:
    """Add a flag with a whole number."""
    shown = f" (default: {default})" if default is not None else ""
    group.add_argument(
        *name.split(),
        action=_Once,
        type=int,
        default=default,
        metavar="N",
        help=f"{meaning}{shown}",
    )


def number_or_range(group: Group, name: str, meaning: str, *, default: int) -> None:
    """Add a flag with a whole number, or a range of them, which the spec checks."""
    group.add_argument(
        name,
        action=_Once,
        type=_number_or_text,
        default=default,
        metavar="N",
        help=f"{meaning} (default: {default})",
    )


def _number_or_text(written: str) -> int | str:
    try:
        return int(written)
    except ValueError:
        return written


def switch(group: Group, name: str, meaning: str) -> None:
    """Add a flag that is on or off."""
    group.add_argument(*name.split(), action="store_true", help=meaning)


def many(
    group: Group,
    name: str,
    meaning: str,
    *,
    metavar: str,
    words: Sequence[str] | None = None,
    read: Callable[[str], str] = str,
) -> None:
    """Add a flag that can be repeated, with the allowed `words` if there are any."""
    _repeated(group, name, meaning, metavar=metavar, words=words, action="append").type = read


def several(
    group: Group,
    name: str,
    meaning: str,
    *,
    metavar: str,
    words: Sequence[str] | None = None,
    read: Callable[[str], str] = str,
) -> None:
    """Add a flag like `many`, whose values can also be separated by commas."""
    added = _repeated(group, name, meaning, metavar=metavar, words=words, action=_Listed)
    assert isinstance(added, _Listed)
    added.read = read


def _repeated(
    group: Group,
    name: str,
    meaning: str,
    *,
    metavar: str,
    words: Sequence[str] | None,
    action: str | type[argparse.Action],
) -> argparse.Action:
    return group.add_argument(
        name,
        action=action,
        choices=words,
        default=[],
        metavar=metavar,
        help=f"{meaning}; can be repeated",
    )


def choice(group: Group, name: str, words: Sequence[str], meaning: str) -> None:
    """Add a flag with one of a few words, the first by default."""
    group.add_argument(name, action=_Once, choices=words, default=words[0], help=meaning)


def add_general_flags(parser: argparse.ArgumentParser, *, connects: bool, prints: bool) -> None:
    """Add the flags that verbs share."""
    if connects:
        group = parser.add_argument_group(CONNECTION)
        text(
            group,
            "--root",
            "the bastion's bucket, such as gs://bucket/bastion, or a folder",
            metavar="URL",
        )
        text(
            group,
            "--bastion",
            "a profile, or the name of a folder next to the current root",
            metavar="NAME",
        )
        text(group, "--user_id", "the user (default: your login name)", metavar="USER")
        text(group, "-p --project_id", "the project", metavar="PROJECT")
    if prints:
        group = parser.add_argument_group(OUTPUT)
        forms = ("table", "wide", "json", "name")
        group.add_argument("-o", "--output", choices=forms, default=forms[0], help="output format")
        switch(group, "--json", "the same as -o json")
        switch(group, "-q --quiet", "print only ids, the same as -o name")
    group = parser.add_argument_group(GENERAL)
    choice(
        group,
        "--color",
        ("auto", "always", "never"),
        "when to color the output; NO_COLOR is respected",
    )
    switch(group, "--debug", "show tracebacks")


def split_command(words: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """
    Return our own words and the user's command, or None if there is none.

    The command follows the first `--`, or the script that `launch` is given.
    """
    words = list(words)
    script = _script_at(words)
    if script:
        return words[: script + 1], words[script + 1 :]
    if "--" not in words:
        return words, None
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _script_at(words: list[str]) -> int:
    """Return the position of the script in `launch [flags] script.py ...`, or 0."""
    if words[:1] != ["launch"]:
        return 0
    for at, word in enumerate(words[1:], start=1):
        if word == "--":
            return 0
        is_value = words[at - 1].startswith("-") and "=" not in words[at - 1]
        if word.endswith(".py") and not word.startswith("-") and not is_value:
            return at
    return 0


def normal(words: Sequence[str]) -> list[str]:
    """Return `words` with underscores in flags: `--instance-type` is `--instance_type`."""
    return [_normal(word) for word in words]


def _normal(word: str) -> str:
    if not word.startswith("--"):
        return word
    name, equals, text = word.partition("=")
    return f"--{name[2:].replace('-', '_')}{equals}{text}"


def with_flagfiles(words: Sequence[str]) -> list[str]:
    """
    Return `words` with every `--flagfile` replaced by its flags.

    Raises:
        UsageError: A file cannot be read.
    """
    if not any(word.startswith(("--flagfile", "-flagfile")) for word in words):
        return list(words)
    from absl import flags

    try:
        expanded: list[str] = flags.FLAGS.read_flags_from_files(list(words), force_gnu=True)
    except flags.CantOpenFlagFileError as error:
        told = error.__context__
        why = told.strerror if isinstance(told, OSError) else str(error)
        name = told.filename if isinstance(told, OSError) else ""
        raise UsageError(
            f"--flagfile: {name}: {why}", hint="give a file with one flag per line"
        ) from None
    return expanded


def refuse_empty(words: Sequence[str]) -> None:
    """
    Refuse a flag with an empty value: most likely a shell variable is not set.

    Raises:
        UsageError: There is one, such as `--root=`, `--root ""` or `--after=" "`.
    """
    for word, following in zip(words, [*words[1:], None]):
        if not word.startswith("-"):
            continue
        name, equals, value = word.partition("=")
        said = value if equals else following
        if said is not None and not said.strip():
            raise UsageError(
                f"{name}: the value is empty",
                hint="omit the flag, or set the variable that its value comes from",
            )


def refuse_bytes(words: Sequence[str]) -> None:
    """
    Refuse a word that is not UTF-8: all names and stored texts are UTF-8.

    Raises:
        UsageError: There is one.
    """
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{word!r} is not UTF-8", hint="encode it as UTF-8") from None


def _whole_number(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{word!r} is not a whole number") from None


def _positional(action: argparse.Action) -> str:
    name = str(action.metavar or action.dest.upper())
    return {"?": f"[{name}]", "*": f"[{name}...]", "+": f"{name}..."}.get(str(action.nargs), name)


def _description(told: str, example: str) -> str:
    """The description of a verb, wrapped, and its example: what most readers look for."""
    import textwrap

    return f"{textwrap.fill(told, _HELP_COLUMNS)}\n\nexample:\n{_indented(example)}"


_HELP_COLUMNS = 79


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
