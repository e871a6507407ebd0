"""`bastion up` in the place of a bucket that is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch import exits
from launch.commands.here.removed_bucket import refuse_in_place_of_another
from launch.errors import UsageError
from tests.launch.command_line import Run


@pytest.mark.parametrize(
    ("is_gone", "told"),
    [
        (False, "is gone, and its bastion or machines still run here"),
        (True, "is gone, and the folders of its machines are still here"),
    ],
)
def test_what_is_left_of_a_removed_bucket_is_told(is_gone: bool, told: str, tmp_path: Path) -> None:
    """After `bastion down` nothing lives, but the bucket's disk may only be unmounted."""
    folder = tmp_path / "machines" / "0123456789" / "here" / "here-0"
    folder.mkdir(parents=True)
    (folder / "machine").write_text("here")
    (folder / "root").write_text((tmp_path / "bucket").as_uri())
    if is_gone:
        (folder / "gone").touch()
    with pytest.raises(UsageError) as refused:
        refuse_in_place_of_another(
            (tmp_path / "bucket").as_uri(), tmp_path / "machines", is_own=True
        )
    assert str(refused.value).endswith(told)
    assert refused.value.hint.endswith("otherwise run bastion down, then bastion up")


def test_down_of_a_root_where_nothing_ever_was_is_not_found(run: Run, tmp_path: Path) -> None:
    """The name is probably mistyped; remains of a bucket that is gone are set aside once."""
    mistyped, machines = tmp_path / "buckt", tmp_path / "machines"
    down = ("down", f"--root={mistyped}", f"--machines_dir={machines}")
    never = f"error: there is no bucket in {mistyped}, and nothing here served one\n"
    hint = "hint: set --root to the folder that you gave to bastion up\n"
    assert run(*down) == (exits.NOT_FOUND, "", never + hint)
    folder = machines / "here" / "here-0"
    folder.mkdir(parents=True)
    (folder / "machine").write_text("here")
    (folder / "root").write_text(mistyped.as_uri())
    (folder / "gone").touch()
    left = run(*down)
    assert left.code == 0
    assert left.err.startswith(f"the bucket in {mistyped} is gone, and nothing here serves it\n")
    assert run(*down).code == exits.NOT_FOUND
