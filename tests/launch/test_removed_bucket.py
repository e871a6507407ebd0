"""`bastion up` in place of a bucket that is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.commands.here.removed_bucket import refuse_in_place_of_another
from launch.errors import UsageError


@pytest.mark.parametrize(
    ("is_gone", "told"),
    [
        (False, "is gone, and what served it is still here"),
        (True, "is gone, and the folders of its machines stand here"),
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
    assert refused.value.hint.endswith("otherwise bastion down, then bastion up")
