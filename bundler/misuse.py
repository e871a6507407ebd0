"""Arguments that a value about code does not take: which argument of ours was meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bundler.errors import InvalidCodeError

if TYPE_CHECKING:
    from quota.value import Misfit

_WORDS = {
    "branch": "ref revision tag version",
    "build_args": "args buildargs",
    "commit": "hash rev revision sha",
    "context": "dir directory folder path root",
    "exclude": "excludes ignore",
    "file": "dockerfile",
    "image": "name ref repo tag",
    "max_size": "limit max_bytes size",
    "ref": "image name tag uri url",
    "root": "dir directory folder path workdir working_dir",
    "url": "git remote repo repository uri",
}
"""Our argument, and what others call it."""
_EXAMPLES = {
    "DockerBuild": "DockerBuild(image='registry.example/team/train')",
    "GitRepo": "GitRepo('https://git.example/team/train', branch='main')",
    "Image": "Image('registry.example/team/train:1.0')",
    "LocalDir": "LocalDir('.', exclude=['data/'])",
}
_NEEDED = {
    "image": "the name to push it under, with its registry",
    "ref": "the name of the image, with its registry",
    "url": "where the repository is",
}
"""What an argument is that has no default."""


def misfit_error(misfit: Misfit) -> InvalidCodeError:
    """Return the error for arguments that do not fit: what each was meant to be."""
    problems, is_clear = misfit.problems(_WORDS, _NEEDED)
    example = f"as {_EXAMPLES[misfit.called]}"
    takes = "" if is_clear else f"{misfit.called} takes {', '.join(misfit.taken)}; "
    return InvalidCodeError(*problems, hint=f"{takes}{example}")
