"""The watch of a bucket in a folder: a hint that ends a pause, and never more."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bastion.clock import SystemClock, VirtualClock
from bastion.records.keys import layout
from bastion.store.folder.local import LocalStore
from bastion.store.folder.mark import mark_of
from bastion.store.folder.watch import FolderWatch, Pause, Watch
from bastion.store.open import open_watch

HANGS_S = 60.0
"""Only ends a test that hangs."""
MINE = layout.instructions("pool-1-0", 1, 5)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Provide a bucket in a folder."""
    LocalStore(tmp_path / "root", makes_root=True)
    return tmp_path / "root"


@pytest.fixture
def inbox(root: Path) -> Iterator[Watch]:
    """Provide a watch of its inbox."""
    made = open_watch(root.as_uri(), layout.INBOX, SystemClock())
    assert isinstance(made, FolderWatch)
    yield made
    made.close()


def test_a_request_is_news_at_once(root: Path, inbox: Watch) -> None:
    """The object exists when the watch reports it, whichever program wrote it."""
    key = layout.request("blue", "ada", "0" * 26, "cancel")
    assert not inbox.has_news()
    LocalStore(root).create(key, b"{}")
    assert inbox.wait(HANGS_S)
    assert LocalStore(root).read(key) is not None
    assert not inbox.has_news()


def test_what_is_written_elsewhere_is_no_news(root: Path, inbox: Watch) -> None:
    """An answer, a log or a commit wakes no program that waits for requests."""
    store = LocalStore(root)
    written = store.create(layout.ROOT, b"1")
    store.swap(layout.ROOT, b"2", if_version=written.version)
    store.create(layout.answer("blue", "ada", "0" * 26), b"{}")
    store.create("inboxes/more", b"")
    assert not inbox.has_news()
    assert not inbox.wait(0.0)


def test_an_agent_is_told_of_its_own_instructions(root: Path) -> None:
    """Instructions of other machines of its pool are not its news."""
    below = layout.folder_of(MINE)
    watch = open_watch(root.as_uri(), below, SystemClock())
    LocalStore(root).create(layout.instructions("pool-1-1", 1, 5), b"")
    assert not watch.has_news()
    LocalStore(root).create(MINE, b"")
    assert watch.has_news()
    watch.close()


def test_news_that_a_wait_has_heard_is_still_told(root: Path, inbox: Watch) -> None:
    """The wait learns of it first, and the next turn reads."""
    assert not inbox.hears()
    LocalStore(root).create(layout.request("blue", "ada", "0" * 26, "cancel"), b"{}")
    assert inbox.hears()
    assert inbox.hears()
    assert inbox.has_news()
    assert not inbox.has_news()


def test_a_swap_is_news_too(root: Path) -> None:
    """For example, a view or a root that is replaced."""
    store = LocalStore(root)
    written = store.create(layout.view("queue"), b"1")
    watch = open_watch(root.as_uri(), layout.VIEWS, SystemClock())
    store.swap(layout.view("queue"), b"2", if_version=written.version)
    assert watch.has_news()
    watch.close()


def test_a_folder_that_was_replaced_is_watched_again(root: Path, inbox: Watch) -> None:
    """The watch itself reports news, because it may have missed some."""
    shutil.rmtree(root / ".tmp")
    assert inbox.wait(HANGS_S)
    store = LocalStore(root, makes_root=True)
    assert not inbox.has_news()
    store.create(layout.request("blue", "ada", "0" * 26, "cancel"), b"{}")
    assert inbox.wait(HANGS_S)


def test_where_nothing_can_be_watched_it_pauses(tmp_path: Path) -> None:
    """For a missing folder, a cloud or memory, the next poll finds news."""
    clock = VirtualClock()
    absent = open_watch((tmp_path / "absent").as_uri(), layout.INBOX, clock)
    for watch in (absent, open_watch("memory:", layout.INBOX, clock), Pause(clock)):
        before = clock.monotonic()
        assert not watch.wait(0.5)
        assert clock.monotonic() == pytest.approx(before + 0.5)
        assert (watch.fileno(), watch.has_news()) == (-1, False)


def test_more_than_the_system_keeps_is_news(inbox: Watch) -> None:
    """An overflow hides news, so it counts."""
    overflow = (-1).to_bytes(4, "little", signed=True) + (0x4000).to_bytes(4, "little") + bytes(8)
    assert isinstance(inbox, FolderWatch)
    assert inbox._has_mark(overflow)


def test_a_mark_tells_the_folders_of_a_key() -> None:
    """It is the same for all keys of three folders, and another for any other."""
    assert mark_of("a/b/c/d") == mark_of("a/b/c/e/f") != mark_of("a/b/d/d")
    assert mark_of("a/b/c/d").startswith("a-")
    assert "/" not in mark_of("a/b/c")
    assert mark_of("alone").startswith("-")
    assert len(mark_of(f"{'x' * 255}/y")) < 40


def descriptors() -> set[str]:
    """Return the open descriptors of this process, by name."""
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_a_watch_is_closed(root: Path) -> None:
    """It leaves no descriptor behind."""
    before = descriptors()
    watch = open_watch(root.as_uri(), layout.INBOX, SystemClock())
    watch.close()
    assert descriptors() == before


def test_a_deleted_bucket_is_told_from_one_that_was_moved(root: Path, inbox: Watch) -> None:
    """Only what the kernel saw deleted is gone, not what exists again in its place."""
    away = root.rename(root.with_name("away"))
    assert not (inbox.has_news() and inbox.is_removed())
    away.rename(root)
    shutil.rmtree(root / ".tmp")
    inbox.has_news()
    assert not inbox.is_removed()
    LocalStore(root, makes_root=True)
    inbox.has_news()
    shutil.rmtree(root)
    inbox.has_news()
    assert inbox.is_removed()
    LocalStore(root, makes_root=True)
    inbox.has_news()
    assert not inbox.is_removed()
