"""Which bastion, user and project apply."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bastion.client.code.outputs import folder_at
from bastion.errors import SpecError
from bastion.profile import Profile, as_url, config_path, read_settings
from bundler.bundle.select import select
from bundler.code import LocalDir
from bundler.errors import InvalidCodeError
from launch.errors import UsageError
from launch.settings import chosen, write_profile
from tests.launch.command_line import Run


@pytest.fixture(autouse=True)
def _own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a configuration folder of the test, and no variables."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("BASTION_ROOT", "BASTION_USER", "BASTION_PROJECT"):
        monkeypatch.delenv(name, raising=False)


def choose(*, root: str = "", bastion: str = "", user: str = "", project: str = "") -> Profile:
    """Return the settings with these flags."""
    return chosen(root=root, bastion=bastion, user=user, project=project)


def test_flags_outrank_variables_and_those_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each setting is taken from the first place that has it."""
    write_profile("work", {"root": "gs://a/b", "user": "ada", "project": "blue"}, activate=True)
    assert choose() == Profile(root="gs://a/b", user="ada", project="blue")
    monkeypatch.setenv("BASTION_ROOT", "gs://c/d")
    monkeypatch.setenv("BASTION_PROJECT", "green")
    assert choose() == Profile(root="gs://c/d", user="ada", project="green")
    assert choose(root="s3://e", user="lin") == Profile(root="s3://e", user="lin", project="green")


def test_a_folder_is_meant_from_where_it_was_set(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`config set root=bucket` applies in every folder, as `gs://` does."""
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert run("config", "set", "root=bucket", "code=.").code == 0
    monkeypatch.chdir(tmp_path / "there")
    found = read_settings().profile
    assert found.root == (tmp_path / "here" / "bucket").as_uri()
    assert found.code == "."  # the folder in which a launch is typed


def test_a_bastion_is_a_profile_or_a_folder_beside_the_root() -> None:
    """Users of shared buckets know this: one bucket with a folder for each bastion."""
    write_profile("work", {"root": "gs://bucket/shared-bastion", "user": "ada"}, activate=True)
    write_profile("home", {"root": "file:///srv/b"}, activate=False)
    assert choose(bastion="home").root == "file:///srv/b"
    assert choose(bastion="ada-bastion") == Profile(root="gs://bucket/ada-bastion", user="ada")


def test_a_bastion_that_nothing_leads_to_is_told() -> None:
    """Without a root, there is no place to search."""
    write_profile("home", {"user": "ada"}, activate=False)
    with pytest.raises(UsageError) as caught:
        choose(bastion="other")
    assert str(caught.value) == "--bastion: no profile is named 'other'; profiles are home"
    assert caught.value.hint == "bastion config set --profile=other root=URL"


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("gs://bucket/a", "gs://bucket/a"),
        ("memory:", "memory:"),
        ("/srv/a b", "file:///srv/a%20b"),
        ("", ""),
    ],
)
def test_a_plain_path_is_a_folder_here(written: str, url: str) -> None:
    """A user who names a folder means a folder."""
    assert as_url(written) == url


def test_the_home_of_an_unknown_user_is_an_ordinary_name(tmp_path: Path) -> None:
    """A folder, code and results below `~nobody-here` are told as missing, or are made here."""
    assert as_url("~nobody-here/b") == f"{Path.cwd().as_uri()}/~nobody-here/b"
    with pytest.raises(InvalidCodeError, match="nobody-here' is not a folder: nothing is there"):
        select(LocalDir("~nobody-here"), start=tmp_path)
    assert folder_at("~nobody-here") == Path.cwd() / "~nobody-here"
    assert folder_at("~/out") == Path.home() / "out"


def test_comments_in_the_file_stay() -> None:
    """The file is the user's; only the given value changes."""
    config_path().parent.mkdir(parents=True)
    config_path().write_text('# mine\nactive = "a"\n[profiles.a]\nroot = "gs://x/y"  # here\n')
    write_profile("a", {"project": "blue"}, activate=False)
    text = config_path().read_text()
    assert "# mine" in text
    assert "# here" in text
    assert read_settings().profile == Profile(root="gs://x/y", project="blue")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[profiles.a]\nrot = 'x'", "profiles.a.rot: unknown, nearest is root"),
        ("[profiles.a]\nroot = 1", "profiles.a.root: 1 is not text"),
        ("profiles = 3", "profiles is not a table"),
        ("[profiles]\na = 1", "profiles.a is not a table"),
        ("= 3", "Invalid statement"),
    ],
)
def test_a_wrong_file_is_told(text: str, message: str) -> None:
    """The error has the file, the key and the nearest word."""
    config_path().parent.mkdir(parents=True)
    config_path().write_text(text)
    with pytest.raises(SpecError, match=message) as caught:
        read_settings()
    assert str(config_path()) in str(caught.value)


def test_config_sets_lists_shows_and_activates(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verb does what an editor would do."""
    monkeypatch.delenv("BASTION_ROOT")
    monkeypatch.delenv("BASTION_USER")
    assert run("list").err.startswith("error: no bastion named: set --root")
    assert run("config", "set", "root=gs://a/b", "project=blue").code == 0
    assert run("config", "set", "--profile=home", "root=file:///srv/b").code == 0
    assert run("config", "list", "-q").out == "default\nhome\n"
    assert run("config", "show").out.split() == ["root", "gs://a/b", "project", "blue"]
    assert run("config", "activate", "home").code == 0
    assert '"root": "file:///srv/b"' in run("config", "show", "--json").out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["set"], "config set: nothing to set"),
        (["set", "root"], "config set: 'root' is not KEY=TEXT"),
        (["set", "rot=x"], "config set: rot: unknown, nearest is root"),
        (["activate", "x"], "config activate: no profile is named 'x'; profiles are none"),
    ],
)
def test_config_refuses_what_it_does_not_know(words: list[str], error: str, run: Run) -> None:
    """Exit 2, one line."""
    ran = run("config", *words)
    assert ran.code == 2
    assert ran.err.splitlines()[0] == f"error: {error}"


@pytest.mark.parametrize("root", ["gcs://bucket/x", "ftp://x", "gs:/bucket/x", "s3://b?color=red"])
def test_config_sets_no_root_that_cannot_be_opened(root: str, run: Run) -> None:
    """It is refused as by every other command, and nothing is written."""
    ran = run("config", "set", f"root={root}")
    assert ran.code == 2
    assert ran.err.startswith(f"error: store {root!r}: ")
    assert ran.err == run("list", f"--root={root}").err
    assert not config_path().exists()


def test_a_home_that_is_no_folder_has_no_profiles(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some programs have such a home: commands without a profile work, and a set one is refused."""
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", "/dev/null")
    assert run("list").code == 0
    ran = run("config", "set", "root=gs://a/b")
    assert (ran.code, ran.err.splitlines()) == (
        1,
        [
            "error: /dev/null/.config/bastion/config.toml cannot be written:"
            " /dev/null/.config/bastion: is not a folder",
            "hint: XDG_CONFIG_HOME names another folder for settings",
        ],
    )


def test_config_takes_a_root_away(run: Run) -> None:
    """An empty text is no root."""
    assert run("config", "set", "root=gs://a/b").code == 0
    assert run("config", "set", "root=").code == 0
    assert read_settings().profile.root == ""


def test_a_configuration_that_is_not_there_is_a_usage_error(run: Run, tmp_path: Path) -> None:
    """This is so for every verb with a file argument; a missing file that it names is one too."""
    missing = run("config", "check", "nofile.toml")
    assert (missing.code, missing.err) == (2, "error: nofile.toml: No such file or directory\n")
    file = tmp_path / "bastion.toml"
    file.write_text('[pools.a]\nprovider = "ssh"\nhosts_file = "rack.hosts"\n')
    ran = run("config", "check", str(file))
    assert ran.code == 2
    assert f"{tmp_path}/rack.hosts: No such file or directory" in ran.err


def test_profiles_that_are_set_at_once_are_all_kept() -> None:
    """Each of several commands that write the file sees what the others wrote."""
    names = [f"p{number}" for number in range(20)]

    def write(name: str) -> None:
        write_profile(name, {"root": f"gs://{name}/b"}, activate=False)

    with ThreadPoolExecutor(len(names)) as several:
        list(several.map(write, names))
    assert set(read_settings().profiles) == set(names)
