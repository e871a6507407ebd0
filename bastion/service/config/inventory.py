"""
Inventories: your own hosts with their labels, one per line, in files next to `bastion.toml`.

    # host         labels
    gpu1           cluster=primary shard=rl
    root@gpu2      cluster=primary shard=rl

A pool names such a file and takes the hosts with its labels. The text of a configuration in force
holds the inventories that it names, in a separate table, so that it is complete on its own.

This module must not know stores and pools.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bastion.errors import SpecError
from bastion.spec.where import CONTAINERS, MAX_FILTER_CHARACTERS
from bastion.value import value

SUFFIX = ".hosts"
FILES = "host_files"
"""The table of a configuration in force that holds its inventories: name -> text."""
HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:%-]{0,250}", re.ASCII)
"""Accepted by `ssh` as a host, and never taken for an option."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,80}\.hosts", re.ASCII)
_LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*", re.ASCII)
_MOST_TOLD = 20
"""Maximum faulty lines that are listed: a file of another kind has a fault on each line."""


@value
class HostLine:
    """One host of an inventory."""

    number: int
    """Number of its line, from 1."""
    host: str
    labels: Mapping[str, str]


def is_inventory(name: str) -> bool:
    """Whether a file with this name, next to `bastion.toml`, can be an inventory."""
    return _NAME.fullmatch(name) is not None


def plain_host(host: str) -> str:
    """Return a host without its user and in lower case: the same host for every login."""
    return host.rpartition("@")[2].lower()


def inventories_of(config: str) -> tuple[str, ...]:
    """Return the names of the inventories that a configuration needs; none if it is bad."""
    try:
        pools = tomllib.loads(config).get("pools")
    except (ValueError, RecursionError):
        return ()
    tables = pools.values() if isinstance(pools, dict) else ()
    named = (each.get("hosts_file") for each in tables if isinstance(each, dict))
    return tuple(sorted({each for each in named if isinstance(each, str) and is_inventory(each)}))


def whole_config(config: str, read: Callable[[str], str]) -> str:
    """
    Return a configuration with the inventories that it needs, each as `read` returns it.

    Raises:
        SpecError: It already has the table of inventories.
    """
    named = inventories_of(config)
    if not named:
        return config
    if FILES in tomllib.loads(config):
        raise SpecError(f"config/bastion.toml: {FILES}: is written by the bastion; leave it out")
    texts = {name: read(name) for name in named}
    lines = (f"{_quoted(name)} = {_quoted(text)}\n" for name, text in texts.items())
    return f"{config.rstrip()}\n\n[{FILES}]\n{''.join(lines)}"


def parse_inventory(name: str, text: str) -> tuple[HostLine, ...]:
    """
    Return the hosts of the inventory `name`, in order.

    Raises:
        SpecError: It has problems; each is listed with its line.
    """
    found: list[HostLine] = []
    wrong: list[str] = []
    first: dict[str, int] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        mistakes, labels = _mistakes(words)
        before = first.setdefault(plain_host(words[0]), number)
        if before != number:
            mistakes.append(f"{words[0]!r} is on line {before} already")
        wrong += [f"config/{name} line {number}: {mistake}" for mistake in mistakes]
        found.append(HostLine(number=number, host=words[0], labels=labels))
    if not found:
        wrong.append(f"config/{name}: names no host; write one per line, followed by its labels")
    if len(wrong) > _MOST_TOLD:
        wrong[_MOST_TOLD:] = [f"config/{name}: {len(wrong) - _MOST_TOLD} more mistakes"]
    if wrong:
        raise SpecError(*wrong)
    return tuple(found)


def chosen_hosts(
    name: str, lines: Sequence[HostLine], wanted: Mapping[str, str]
) -> tuple[HostLine, ...]:
    """
    Return the hosts of the inventory `name` that have all labels `wanted`.

    Raises:
        SpecError: There are none, or they differ in another label: all hosts of a pool have the
            same.
    """
    chosen = [each for each in lines if wanted.items() <= each.labels.items()]
    if not chosen:
        raise SpecError(f"hosts_file: no host of config/{name} has {_written(wanted)}")
    first = chosen[0]
    other = next((each for each in chosen if each.labels != first.labels), None)
    if other is not None:
        raise SpecError(
            f"hosts_file: hosts of a pool have the same labels, but in config/{name}"
            f" {first.host!r} has {_written(first.labels)} (line {first.number}) and {other.host!r}"
            f" has {_written(other.labels)} (line {other.number}); make a pool for each set of"
            " labels"
        )
    return tuple(chosen)


def tables_of(files: Mapping[str, Any]) -> tuple[dict[str, tuple[HostLine, ...]], list[str]]:
    """Return the inventories of a configuration in force, and every problem in them."""
    found: dict[str, tuple[HostLine, ...]] = {}
    wrong: list[str] = []
    for name, text in files.items():
        try:
            found[name] = parse_inventory(name, str(text))
        except SpecError as error:
            wrong += error.problems
    return found, wrong


def _mistakes(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return what is wrong with one line, and its labels."""
    host, *rest = words
    labels: dict[str, str] = {}
    wrong = []
    if host.startswith("["):
        return [f"{host!r}: there are no sections; give each host its labels"], labels
    if not HOST.fullmatch(host):
        wrong.append(f"{host!r} is not a name that OpenSSH takes, such as gpu1 or root@gpu1")
    for word in rest:
        label, equals, text = word.partition("=")
        if not equals or not text or not _LABEL.fullmatch(label):
            wrong.append(f"{word!r} is not a label; write LABEL=TEXT, such as shard=rl")
        elif label.startswith("ansible_"):
            wrong.append(f"{label!r}: users, ports and keys are those of ~/.ssh/config")
        elif label == CONTAINERS:
            wrong.append(f"{label!r}: is a key of the pool, not a label of a host")
        elif len(word) > MAX_FILTER_CHARACTERS:
            wrong.append(
                f"{word[:20]!r}...: a label has at most {MAX_FILTER_CHARACTERS} characters"
            )
        elif label in labels:
            wrong.append(f"{label!r} is given twice")
        else:
            labels[label] = text
    return wrong, labels


def _written(labels: Mapping[str, str]) -> str:
    return " ".join(f"{label}={text}" for label, text in sorted(labels.items())) or "no label"


def _quoted(text: str) -> str:
    """Return `text` as a TOML string."""
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted.replace("\x7f", "\\u007f")
