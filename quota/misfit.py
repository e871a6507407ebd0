"""
`Misfit`: how arguments do not fit what is called, and what may have been meant.

This module does not know the meaning of arguments: the words come from the package that is called.
"""

from __future__ import annotations

from difflib import get_close_matches
from inspect import Parameter, signature
from reprlib import repr as short
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_OWN = ("self", "cls")


class Misfit(NamedTuple):
    """How the arguments of one call do not fit."""

    called: str
    """The class or the method."""
    taken: tuple[str, ...]
    """The arguments that it takes."""
    unknown: Mapping[str, object]
    """Names that it does not take, with the given values."""
    missing: tuple[str, ...]
    """Arguments that it needs, and that were not given."""
    surplus: tuple[object, ...]
    """Positional values beyond the arguments that it takes."""
    twice: tuple[str, ...]
    """Arguments that were given both by position and by name."""
    at_place: int = 0
    """How many positional arguments it takes."""
    any_number: str = ""
    """The variable positional argument, such as the `names` of `cancel(*names)`."""

    def problems(
        self,
        words: Mapping[str, str],
        needed: Mapping[str, str],
        elsewhere: Callable[[Misfit, str, object], str] = lambda *_: "",
    ) -> tuple[list[str], bool]:
        """
        Return each problem with what to write, and whether all was understood.

        Args:
            words: Our arguments, each with the names others use, as `name` or `Class.name`.
            needed: What a required argument is, likewise.
            elsewhere: What to write for an argument that something else takes; empty: unknown.
        """
        told, meant, is_clear = [], set(), True
        for word, given in self.unknown.items():
            own = self._own(word, words)
            meant.update(own)
            near = " or ".join(own[:2])
            if own and own[0] == self.any_number:
                text = f"; write {self.called}({shown(given)})"
            elif own:
                text = f"; did you mean {near}?"
            elif written := elsewhere(self, word, given):
                text = f"; write {written}"
                meant.add(written.partition("=")[0])
            else:
                text, is_clear = "", False
            told.append(f"{word}: {self.called} takes no such argument{text}")
        if self.surplus:
            told.append(f"{', '.join(map(shown, self.surplus))}: {self.called} {self._at_place()}")
            is_clear = False
        told += [f"{name}: given twice, by its place and by its name" for name in self.twice]
        told += [
            f"{name}: is missing; {self._of(name, needed) or 'it has no default'}"
            for name in self.missing
            if name not in meant and not self.surplus  # which is what was meant for it
        ]
        return told, is_clear

    def _at_place(self) -> str:
        if not self.at_place:
            return "takes no argument without its name"
        if self.at_place == 1:
            return "takes one argument without its name"
        return f"takes {self.at_place} arguments without their names"

    def _own(self, word: str, words: Mapping[str, str]) -> list[str]:
        """Return the arguments of the called function that `word` may mean."""
        plain = word.lower()
        taken = (*self.taken, *([self.any_number] if self.any_number else []))
        own = [name for name in taken if plain == name or plain in self._of(name, words).split()]
        if own:
            return own
        return get_close_matches(plain, taken, n=1, cutoff=0.75)

    def _of(self, name: str, told: Mapping[str, str]) -> str:
        return told.get(f"{self.called}.{name}", told.get(name, ""))


def shown(given: object) -> str:
    """Return a given value for an error: shortened, and only its type unless it is plain."""
    if given is None or isinstance(given, str | int | float):
        return short(given)
    return f"{type(given).__name__}(...)"


def misfit_of(call: Any, called: str, given: tuple[Any, ...], named: dict[str, Any]) -> Misfit:
    """Return how these arguments, with `self` the first, do not fit `call`."""
    every = [each for each in signature(call).parameters.values() if each.name not in _OWN]
    given = given[1:]  # without `self`
    at_place = [each for each in every if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
    any_number = [each.name for each in every if each.kind is Parameter.VAR_POSITIONAL]
    placed = {each.name for each in at_place[: len(given)]}
    many = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    taken = tuple(each.name for each in every if each.kind not in many)
    return Misfit(
        called=called,
        taken=taken,
        unknown={name: item for name, item in named.items() if name not in taken},
        missing=tuple(
            each.name
            for each in every
            if each.default is Parameter.empty
            and each.kind not in many
            and each.name not in placed
            and each.name not in named
        ),
        surplus=() if any_number else given[len(at_place) :],
        twice=tuple(name for name in named if name in placed),
        at_place=len(at_place),
        any_number="".join(any_number),
    )
