"""User input about code is checked immediately, and stored forms are unambiguous."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from bundler.code import (
    BundleRef,
    Code,
    CodeRef,
    DockerBuild,
    GitRef,
    GitRepo,
    Image,
    ImageRef,
    LocalDir,
)
from bundler.errors import InvalidCodeError
from bundler.options import parse_options
from bundler.size import parse_size, show_size
from bundler.url import redacted, url_problems

_FULL = "0123456789" * 4


@pytest.mark.parametrize(
    "make",
    [
        lambda: LocalDir(),
        lambda: LocalDir("code", exclude=["data/", "*.ckpt"], max_size="2 GiB"),
        lambda: GitRepo("https://example.org/a/b.git"),
        lambda: GitRepo("git@example.org:a/b.git", branch="feature/x", commit="abcdef0"),
        lambda: GitRepo("ssh://git@example.org:2222/a/b"),
        lambda: GitRepo("file:///srv/repo"),
        lambda: Image("python:3.11"),
        lambda: Image("registry.example:5000/team/train:1.0@sha256:" + "0" * 64),
        lambda: DockerBuild(image="eu.example/p/base", target="bastion", build_args={"A": "1"}),
    ],
)
def test_what_is_right_is_taken(make: Callable[[], object]) -> None:
    """Every form in the guide is accepted, and equal ones are equal and hashable."""
    assert make() == make()
    assert len({make(), make()}) == 1


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: LocalDir(exclude="*.ckpt"), "exclude: '*.ckpt' is not a list of patterns"),
        (lambda: LocalDir(exclude=5), "exclude: 5 is not a list of patterns"),  # type: ignore[arg-type]
        (lambda: LocalDir(exclude=[""]), "exclude: '' is not a pattern"),
        (lambda: LocalDir(max_size="many"), "max_size: 'many' is not a size, which looks like"),
        (lambda: LocalDir(max_size="9" * 400), "999' is not a size, which looks like"),
        (lambda: LocalDir(max_size=0), "max_size: 0 is not above zero"),
        (lambda: LocalDir("a\0b"), "root: 'a\\x00b' is not the path of a folder"),
        (lambda: GitRepo(""), "url: is empty; use https://host/path"),
        (lambda: GitRepo("ftp://h/x"), "url: 'ftp://h/x' is not of a supported kind"),
        (lambda: GitRepo("http://h/x"), "url: 'http://h/x' is not encrypted"),
        (lambda: GitRepo("ext::sh -c id"), "has blanks or begins with '-'"),
        (lambda: GitRepo("--upload-pack=id"), "has blanks or begins with '-'"),
        (lambda: GitRepo("ssh://-oProxyCommand=id/x"), "names no repository"),
        (lambda: GitRepo("file://host/x"), "names no path"),
        (lambda: GitRepo("https://h/x", branch="-x"), "branch: '-x' is not a name git allows"),
        (lambda: GitRepo("https://h/x", branch="a..b"), "branch: 'a..b' is not a name git allows"),
        (lambda: GitRepo("https://h/x", commit="HEAD"), "commit: 'HEAD' is not 7 to 40"),
        (lambda: GitRepo("https://h/x", lfs="no"), "lfs: 'no' is not True or False"),  # type: ignore[arg-type]
        (lambda: GitRepo("https://h/x", commit=1234567), "commit: 1234567 is not text"),  # type: ignore[arg-type]
        (lambda: GitRepo(None), "url: None is not text"),  # type: ignore[arg-type]
        (lambda: Image("Big Name"), "ref: 'Big Name' is not an image, which looks like"),
        (lambda: DockerBuild(image="a/b@sha256:" + "0" * 64), "has a digest, which only exists"),
        (lambda: DockerBuild(image="a/b", build_args={"1x": ""}), "build_args: '1x' is not a name"),
        (lambda: DockerBuild(image="a/b", build_args=5), "build_args: 5 is not a table, such as"),  # type: ignore[arg-type]
        (lambda: DockerBuild(image="a/b", build_args={1: ""}), "build_args: 1 is not a name"),  # type: ignore[dict-item]
        (lambda: DockerBuild(image="a/b", build_args={"A": 1}), "build_args: A: 1 is not text"),  # type: ignore[dict-item]
        (lambda: DockerBuild(image=5), "image: 5 is not text"),  # type: ignore[arg-type]
        (lambda: DockerBuild(image="a/b", file=""), "file: is empty; name the Dockerfile"),
        (lambda: BundleRef(digest="../x"), "digest: '../x' is not 64 lowercase"),
        (lambda: GitRef(url="https://h/x", commit="abcdef0"), "'abcdef0' is not a full commit"),
        (lambda: ImageRef(ref=""), "ref: '' is not an image"),
    ],
)
def test_what_is_wrong_is_said(make: Callable[[], object], said: str) -> None:
    """Each error names its field, the value and what is allowed."""
    with pytest.raises(InvalidCodeError) as caught:
        make()
    assert said in caught.value.message


def test_all_problems_are_told_at_once() -> None:
    """Three errors are three problems of one exception."""
    with pytest.raises(InvalidCodeError) as caught:
        GitRepo("ftp://h/x", branch="a b", commit="z")
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "url", "branch", "commit",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "url", ["https://me:hunter2@h/x.git", "https://hunter2@h/x.git", "ssh://me:hunter2@h/x.git"]
)
def test_credentials_in_urls_are_refused_and_never_shown(url: str) -> None:
    """A password or token in a url is refused, and the refusal does not repeat it."""
    (problem,) = url_problems(url)
    assert "holds credentials" in problem
    assert "hunter2" not in problem
    assert "hunter2" not in redacted(f"fatal: could not read {url} now")


def test_users_of_ssh_urls_are_no_secret() -> None:
    """`git@` is no credential and stays readable."""
    assert redacted("ssh://git@h/x git@h:x") == "ssh://git@h/x git@h:x"


@pytest.mark.parametrize(
    "ref",
    [
        BundleRef(digest="0" * 64),
        GitRef(url="https://h/x", commit=_FULL, branch="main", submodules=True),
        ImageRef(ref="h/x:1"),
    ],
)
def test_stored_forms_survive_and_refuse_strangers(ref: CodeRef) -> None:
    """A stored form is recognized by its kind, read back equal, and refuses unknown fields."""
    adapter: TypeAdapter[CodeRef] = TypeAdapter(Annotated[CodeRef, Field(discriminator="kind")])
    stored = adapter.dump_python(ref)
    assert adapter.validate_json(adapter.dump_json(ref)) == ref
    with pytest.raises(ValidationError, match=r"extra|unexpected"):
        adapter.validate_python({**stored, "surprise": 1})


def test_the_words_of_the_manual() -> None:
    """The flags of the getting-started page give the build they describe."""
    specs = ["image=base", "dockerfile=Dockerfile", "target=bastion"]
    assert parse_options("artifactregistry", specs) == DockerBuild(
        image="base", file="Dockerfile", target="bastion"
    )
    assert parse_options("artifactregistry", [" ".join(specs)], repo="eu.example/p/r/") == (
        DockerBuild(image="eu.example/p/r/base", file="Dockerfile", target="bastion")
    )


@pytest.mark.parametrize(
    ("bundler_type", "specs", "code"),
    [
        ("local", [], LocalDir()),
        (
            "local",
            ["root='my code' exclude=data/,*.ckpt", "exclude=x", "max_size=2GiB"],
            LocalDir("my code", exclude=["data/", "*.ckpt", "x"], max_size="2GiB"),
        ),
        (
            "git",
            ["url=https://h/x branch=main lfs=true"],
            GitRepo("https://h/x", branch="main", lfs=True),
        ),
        (
            "docker",
            ["image=h/x", "tag=2", "build_arg=A=1 build_arg=B=x=y"],
            DockerBuild(image="h/x:2", build_args={"A": "1", "B": "x=y"}),
        ),
        ("image", ["ref=h/x:2"], Image("h/x:2")),
    ],
)
def test_options_of_every_type(bundler_type: str, specs: list[str], code: object) -> None:
    """Pairs may be repeated, share a flag, hold quoted blanks and equal signs."""
    assert parse_options(bundler_type, specs) == code


@pytest.mark.parametrize(
    ("bundler_type", "specs", "said"),
    [
        ("locl", [], "bundler_type: 'locl' is unknown, did you mean 'local'?"),
        ("git", ["url=https://h/x", "brnch=main"], "'brnch' is unknown for the type 'git', did you "
                                                   "mean 'branch'?"),
        ("git", ["url"], "bundler_spec: 'url' is not a pair"),
        ("git", ["url=https://h/x", "url=https://h/y"], "bundler_spec: 'url' is given twice"),
        ("git", ["url=https://h/x", "lfs=maybe"], "lfs: 'maybe' is neither true nor false"),
        ("git", [], "url: is empty"),
        ("local", ["root='x"], "has a quote that is never closed"),
        ("docker", ["image=h/x", "build_arg=A"], "build_arg: 'A' is not a pair"),
        ("image", ["ref=H/X"], "ref: 'H/X'"),
    ],
)  # fmt: skip
def test_options_that_are_wrong(bundler_type: str, specs: list[str], said: str) -> None:
    """For an unknown word, the error has the nearest known one, and nothing is guessed."""
    with pytest.raises(InvalidCodeError) as caught:
        parse_options(bundler_type, specs)
    assert said in caught.value.message


def test_option_problems_come_together() -> None:
    """A typo and a bad value are reported in one error."""
    with pytest.raises(InvalidCodeError) as caught:
        parse_options("local", ["rot=x", "max_size=huge"])
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("4096", 4096), (7, 7), ("1.5GB", 1_500_000_000), ("2 MiB", 2**21), ("1b", 1)],
)
def test_sizes_are_read(text: int | str, size_bytes: int) -> None:
    """Binary and decimal units are different, and both are known."""
    assert parse_size(text) == size_bytes


def test_sizes_are_shown() -> None:
    """Sizes are shown in the unit a person would choose."""
    shown = [show_size(size) for size in (0, 1023, 1024, 3 * 2**29, 2**41)]
    assert shown == ["0 B", "1023 B", "1.0 KiB", "1.5 GiB", "2.0 TiB"]


@pytest.mark.parametrize(
    ("table", "code"),
    [
        ({}, LocalDir()),
        ({"root": "x", "exclude": ["a"], "max_size": "1GB"}, LocalDir("x", exclude=["a"],
                                                                     max_size="1GB")),
        ({"url": "https://h/x", "branch": "main"}, GitRepo("https://h/x", branch="main")),
        ({"ref": "h/x:1"}, Image("h/x:1")),
        (
            {"image": "h/x", "build_args": {"A": "1"}},
            DockerBuild(image="h/x", build_args={"A": "1"}),
        ),
    ],
)  # fmt: skip
def test_a_table_of_a_spec_file_is_told_by_its_fields(table: dict[str, object], code: Code) -> None:
    """A user's table is read as the only kind that has those fields."""
    adapter: TypeAdapter[Code] = TypeAdapter(Code)
    assert adapter.validate_python(table) == code


def test_a_table_with_unknown_fields_is_refused() -> None:
    """A field that no kind of code has is an error."""
    adapter: TypeAdapter[Code] = TypeAdapter(Code)
    with pytest.raises(ValidationError):
        adapter.validate_python({"rot": "x"})


def test_long_text_is_redacted_at_once() -> None:
    """Megabytes of letters, schemes and almost-credentials take linear time."""
    for text in ("a" * 2_000_000, "https://" * 250_000, "https://" + "a:" * 1_000_000):
        assert redacted(text) == text
    assert redacted("https://u:p@ss@host/x") == "https://***@host/x"


def test_an_address_has_a_length() -> None:
    """An address longer than servers accept is refused by its length, without being shown."""
    (problem,) = url_problems("https://" + "a" * 300_000)
    assert "300008 characters" in problem
    assert len(problem) < 100


@pytest.mark.parametrize(
    ("make", "told", "hint"),
    [
        (
            lambda: LocalDir(path="."),  # type: ignore[call-arg]
            "path: LocalDir takes no such argument; did you mean root?",
            "as LocalDir('.', exclude=['data/'])",
        ),
        (
            lambda: GitRepo(repo="x", rev="y"),  # type: ignore[call-arg]
            "repo: GitRepo takes no such argument; did you mean url?;"
            " rev: GitRepo takes no such argument; did you mean commit?",
            "as GitRepo('https://git.example/team/train', branch='main')",
        ),
        (
            lambda: Image(),  # type: ignore[call-arg]
            "ref: is missing; the name of the image, with its registry",
            "as Image('registry.example/team/train:1.0')",
        ),
        (
            lambda: DockerBuild(image="a", colour="red"),  # type: ignore[call-arg]
            "colour: DockerBuild takes no such argument",
            "DockerBuild takes image, file, context, target, build_args, network; as"
            " DockerBuild(image='registry.example/team/train')",
        ),
    ],
)
def test_a_misfit_argument_is_told_with_what_was_meant(
    make: Callable[[], object], told: str, hint: str
) -> None:
    """The error covers words of other systems, missing words, and otherwise what is allowed."""
    with pytest.raises(InvalidCodeError) as caught:
        make()
    assert (str(caught.value), caught.value.hint) == (told, hint)
    assert caught.value.__notes__ == [f"hint: {hint}"]
