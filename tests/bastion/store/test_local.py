"""Special requirements of a folder: killed writers, full disks, strange files, other users."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bastion.clock import SystemClock, VirtualClock
from bastion.errors import ConflictError, NotFoundError, StoreError, StoreRefusedError
from bastion.store.folder.filesystem import filesystem_of, is_shared
from bastion.store.folder.local import LocalStore
from bastion.store.open import open_watch
from bastion.store.port import Version
from tests.rigs.limits import PATIENCE_S

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the place of the store, which does not exist yet."""
    return tmp_path / "root"


def temps(root: Path) -> list[Path]:
    """Return temporary files of current or dead writers."""
    return list((root / ".tmp").glob("*.tmp"))


def kill_while(work: Callable[[], None], after_s: float) -> None:
    """Run `work` forever in a process and kill -9 it `after_s` after its first round."""
    started, tell = FORK.Pipe(duplex=False)

    def loop() -> None:
        work()
        tell.send(True)
        while True:
            work()

    process = FORK.Process(target=loop, daemon=True)
    process.start()
    try:
        assert started.poll(PATIENCE_S)
        time.sleep(after_s)  # the moment of the kill is the test's input
    finally:
        process.kill()
        process.join(PATIENCE_S)


def swap_forward(store: LocalStore) -> None:
    """Replace `large` by bytes one higher."""
    found = store.read("large")
    assert found is not None
    body = bytes([(found.data[0] + 1) % 256]) * 200_000
    store.swap("large", body, if_version=found.version)


def kill_swappers(root: Path, rounds: int) -> None:
    """Kill swapping processes at random moments; the object stays whole and the lock free."""
    store = LocalStore(root, lock_timeout_s=1.0, makes_root=True)
    store.create("large", bytes(200_000))
    moments = random.Random(7)
    for _ in range(rounds):
        kill_while(lambda: swap_forward(store), moments.uniform(0, 0.01))
        found = store.read("large")
        assert found is not None
        assert found.data == found.data[:1] * 200_000
        swap_forward(store)


def kill_creators(root: Path, rounds: int) -> None:
    """Kill creating and deleting processes at random moments; objects stay whole."""
    store = LocalStore(root, makes_root=True)
    moments = random.Random(8)
    for n in range(rounds):
        counter = iter(range(1_000_000))

        def come_and_go(n: int = n, counter: Iterator[int] = counter) -> None:
            at = next(counter)
            store.create(f"inbox/{n}/{at % 3}/{at}", b"x" * 5000)
            if at >= 2:
                store.delete(f"inbox/{n}/{(at - 2) % 3}/{at - 2}")

        kill_while(come_and_go, moments.uniform(0, 0.01))
        entries = store.list(f"inbox/{n}/")
        assert 1 <= len(entries) <= 3
        for entry in entries:
            assert entry.size == 5000
            with pytest.raises(ConflictError):
                store.create(entry.key, b"again")
            store.delete(entry.key)
        # A creator killed between mkdir and link leaves an empty folder, which blocks no write.
        store.create(f"inbox/{n}", b"an object where a folder was")


def test_a_killed_swap_leaves_old_or_new(root: Path) -> None:
    """However a swap is killed, the object is old or new, and the next swap is not blocked."""
    kill_swappers(root, 15)


def test_a_killed_create_leaves_a_whole_object_or_none(root: Path) -> None:
    """However a create or delete is killed, no partial object is left, and no name blocked."""
    kill_creators(root, 15)


@pytest.mark.prove
def test_a_thousand_kills(root: Path) -> None:
    """A thousand kills at random moments leave nothing broken behind."""
    kill_swappers(root / "a", 500)
    kill_creators(root / "b", 500)


def test_what_killed_writers_left_is_swept(root: Path) -> None:
    """Opening removes temporary files older than an hour, and leaves younger ones."""
    clock = VirtualClock(wall=time.time())
    LocalStore(root, clock=clock, makes_root=True).create("a", b"1")
    (root / ".tmp" / "1-ab-0.tmp").write_bytes(b"left behind")
    LocalStore(root, clock=clock, makes_root=True)
    assert len(temps(root)) == 1
    clock.advance(3700)
    LocalStore(root, clock=clock, makes_root=True)
    assert temps(root) == []


def test_a_writer_swept_by_mistake_fails_and_writes_nothing(root: Path) -> None:
    """A create whose temporary file disappeared is in doubt, not done, and does not hang."""

    class Sweeping(VirtualClock):
        def wall(self) -> float:
            for temp in temps(root):
                temp.unlink()
            return super().wall()

    store = LocalStore(root, clock=Sweeping(), makes_root=True)
    with pytest.raises(StoreError):
        store.create("folder/a", b"1")
    assert store.list("") == ()


def test_a_held_lock_names_its_holder(root: Path) -> None:
    """A swap or delete that waits too long for another process names that process."""
    store = LocalStore(root, clock=VirtualClock(), lock_timeout_s=5.0, makes_root=True)
    version = store.create("a", b"1").version
    store.swap("a", b"2", if_version=version)
    found = store.read("a")
    assert found is not None
    (lock,) = (root / ".tmp" / "locks").iterdir()
    with lock.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match=f"process {os.getpid()} for more than 5 s"):
            store.swap("a", b"3", if_version=found.version)
        with pytest.raises(StoreError, match="locked by process"):
            store.delete("a")
    store.swap("a", b"3", if_version=found.version)


def test_a_child_forked_during_a_swap_does_not_hold_its_lock(root: Path) -> None:
    """A lock ends with the swap, though a process forked meanwhile has its file open."""
    store = LocalStore(root, lock_timeout_s=0.5, makes_root=True)
    version = store.create("a", b"1").version
    children = []

    class Forking(VirtualClock):
        def wall(self) -> float:
            children.append(FORK.Process(target=signal.pause, daemon=True))
            children[-1].start()
            return super().wall()

    written = LocalStore(root, clock=Forking(), makes_root=True).swap("a", b"2", if_version=version)
    store.swap("a", b"3", if_version=written.version)
    for child in children:
        child.kill()
        child.join(PATIENCE_S)
    assert children


def test_the_same_bytes_again_are_another_version(root: Path) -> None:
    """No version repeats: not with the same bytes, nor when the clock stands still."""
    store = LocalStore(root, clock=VirtualClock(), makes_root=True)
    first = store.create("a", b"1")
    second = store.swap("a", b"2", if_version=first.version)
    third = store.swap("a", b"1", if_version=second.version)
    assert len({first.version, second.version, third.version}) == 3
    with pytest.raises(ConflictError):
        store.swap("a", b"4", if_version=first.version)


def test_an_admins_own_edit_is_another_version(root: Path) -> None:
    """A manually edited file is read again, and swaps from before the edit fail."""
    store = LocalStore(root, makes_root=True)
    version = store.create("quotas.config", b"a = 1\n").version
    (root / "quotas.config").write_bytes(b"a = 2\n")
    found = store.read("quotas.config", unless=version)
    assert found is not None
    assert found.data == b"a = 2\n"
    with pytest.raises(ConflictError):
        store.swap("quotas.config", b"", if_version=version)


def test_objects_are_plain_files(root: Path) -> None:
    """`cat` under the root shows an object under its own key."""
    LocalStore(root, makes_root=True).create("inbox/vision/ada/01H.launch.json", b"{}")
    assert (root / "inbox/vision/ada/01H.launch.json").read_bytes() == b"{}"


def test_strange_files_do_not_exist(root: Path) -> None:
    """Pipes, sockets, links to no file and invalid names are neither read nor listed."""
    store = LocalStore(root, makes_root=True)
    store.create("a/object", b"1")
    os.mkfifo(root / "a" / "pipe")
    (root / "a" / "loop").symlink_to(root)
    (root / "a" / "dangling").symlink_to(root / "nowhere")
    (root / "a" / "itself").symlink_to("itself")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "a" / "socket"))
    (root / "a" / "50%").touch()
    (root / "a" / "line\nbreak").touch()
    Path(os.fsdecode(os.fsencode(root) + b"/a/\xff")).touch()
    assert [e.key for e in store.list("")] == ["a/object"]
    for key in ("a/pipe", "a/loop", "a/dangling", "a/itself", "a/socket", "a/50%"):
        with pytest.raises(NotFoundError):
            store.read(key)


def test_a_failed_read_leaks_nothing(root: Path) -> None:
    """However a read ends, no file stays open."""
    store = LocalStore(root, makes_root=True)
    version = store.create("a/b", b"1").version
    for _ in range(5):
        store.read("a/b", unless=version)
        store.read("a/b")
        with pytest.raises(NotFoundError):
            store.read("a")
        with pytest.raises(ConflictError):
            store.create("a/b", b"2")
        store.swap("a/b", b"2", if_version=store.list("")[0].version)
    assert not _open_below(root)


def _open_below(root: Path) -> list[Path]:
    """Return files and folders below `root` that this process has open; others' may change."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(link.readlink())
    return [path for path in found if path.is_relative_to(root)]


def test_nothing_makes_a_root(root: Path) -> None:
    """Without its folder the store is out of reach, and no operation creates one."""
    store = LocalStore(root)
    for operation in (
        lambda: store.read("a"),
        lambda: store.create("a", b"1"),
        lambda: store.swap("a", b"1", if_version=Version("1.1.1")),
        lambda: store.delete("a"),
        lambda: store.list("a/"),
    ):
        with pytest.raises(StoreError, match="out of reach") as caught:
            operation()
        assert not isinstance(caught.value, StoreRefusedError)
    assert not root.exists()
    root.mkdir()
    assert store.list("") == ()


def test_nothing_is_written_where_no_bucket_was_begun(root: Path) -> None:
    """An empty mount point accepts no object, and the bucket that appears there later does."""
    root.mkdir()
    store = LocalStore(root)
    with pytest.raises(StoreError, match="there is no bucket in"):
        store.create("a/b", b"1")
    assert list(root.iterdir()) == []
    disk = root.with_name("disk")
    LocalStore(disk, makes_root=True).create("a/b", b"1")
    root.rmdir()
    disk.rename(root)
    found = store.read("a/b")
    assert found is not None and found.data == b"1"
    store.create("a/c", b"2")


UNMOUNTED = """
import subprocess
import sys
from pathlib import Path
from bastion.errors import StoreError
from bastion.store.folder.local import LocalStore
point, disk = Path(sys.argv[1]) / "point", Path(sys.argv[1]) / "disk"
point.mkdir()
disk.mkdir()
mount = ["mount", "--bind", str(disk), str(point)]
subprocess.run(mount, check=True)
store = LocalStore(point, makes_root=True)
store.create("a", b"1")
subprocess.run(["umount", str(point)], check=True)
for operation in (lambda: store.read("a"), lambda: store.create("b", b"2"), lambda: store.list("")):
    try:
        operation()
    except StoreError as error:
        assert "out of reach" in error.message, error.message
    else:
        raise AssertionError("an empty mount point was taken for the bucket")
assert list(point.iterdir()) == []
subprocess.run(mount, check=True)
store.create("b", b"2")
assert [entry.key for entry in store.list("")] == ["a", "b"]
"""


def test_a_disk_that_is_unmounted_is_out_of_reach(root: Path) -> None:
    """Nothing is read from or written to a mount point while the disk is not there."""
    root.mkdir()
    arguments = ["unshare", "-rm", sys.executable, "-c", UNMOUNTED, str(root)]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if "unshare" in done.stderr:
        pytest.skip("user namespaces are forbidden here")
    assert done.returncode == 0, done.stderr


def test_a_folder_that_went_away_is_out_of_reach(root: Path) -> None:
    """A root that is moved away, or replaced by another, is out of reach until it is back."""
    store, away = LocalStore(root, makes_root=True), root.with_name("away")
    store.create("a/b", b"1")
    root.rename(away)
    with pytest.raises(StoreError, match="out of reach"):
        store.create("a/c", b"2")
    assert not root.exists()
    LocalStore(root, makes_root=True).create("a/b", b"another")
    for operation in (lambda: store.read("a/b"), lambda: store.create("a/c", b"2")):
        with pytest.raises(StoreError, match="another folder"):
            operation()
    root.rename(root.with_name("other"))
    away.rename(root)
    found = store.read("a/b")
    assert found is not None and found.data == b"1"
    assert [entry.key for entry in store.list("")] == ["a/b"]


def test_a_disk_that_is_mounted_again_is_the_same(root: Path) -> None:
    """A folder with another device or inode is the same bucket if its token is the same."""
    store = LocalStore(root, makes_root=True)
    store.create("a", b"1")
    copy = root.with_name("copy")
    shutil.copytree(root, copy, copy_function=shutil.copy2)
    root.rename(root.with_name("old"))
    copy.rename(root)
    found = store.read("a")
    assert found is not None and found.data == b"1"
    store.create("b", b"2")
    assert (root / "b").exists()


def test_the_umask_decides_which_users_may_read(root: Path) -> None:
    """Files and folders have the modes of the umask: 0600 and 0700 under 077."""
    before = os.umask(0o077)
    try:
        LocalStore(root, makes_root=True).create("a/b", b"1")
    finally:
        os.umask(before)
    assert stat.S_IMODE((root / "a" / "b").stat().st_mode) == 0o600
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o700


LOOKED_INTO: list[str] = []
sys.addaudithook(lambda event, args: LOOKED_INTO.append(args[0]) if event == "os.scandir" else None)


@pytest.mark.parametrize(
    ("root_mode", "folder_mode", "file_mode"),
    [(0o755, 0o700, 0o600), (0o2775, 0o2770, 0o660), (0o777, 0o777, 0o666)],
)
def test_no_umask_hides_what_lies_in_a_shared_root(
    root: Path, root_mode: int, folder_mode: int, file_mode: int
) -> None:
    """If a group or all users can write to the root, they can write to everything in it."""
    root.mkdir()
    root.chmod(root_mode)
    before = os.umask(0o077)
    try:
        store = LocalStore(root, durable=False, makes_root=True)
        written = store.create("inbox/ada/x.json", b"1")
        store.swap("inbox/ada/x.json", b"2", if_version=written.version)
    finally:
        os.umask(before)
    for folder in ("inbox/ada", "inbox", ".tmp", ".tmp/locks"):
        assert stat.S_IMODE((root / folder).stat().st_mode) == folder_mode, folder
    (lock,) = (root / ".tmp/locks").iterdir()
    for file in (root / "inbox/ada/x.json", lock):
        assert stat.S_IMODE(file.stat().st_mode) == file_mode, file


def test_a_list_opens_only_folders_that_can_match(root: Path) -> None:
    """Prefix, start and limit prune the walk: irrelevant folders are never opened."""
    store = LocalStore(root, durable=False, makes_root=True)
    for key in ("a/1", "b/1/x", "b/2/x", "c/1"):
        store.create(key, b"")

    def opened(prefix: str, *, start_after: str = "", limit: int = 1000) -> list[str]:
        LOOKED_INTO.clear()
        entries = store.list(prefix, start_after=start_after, limit=limit)
        assert [entry.key for entry in entries] == ["b/2/x"]
        return [Path(path).relative_to(root).as_posix() for path in LOOKED_INTO]

    assert opened("b/2") == ["b", "b/2"]
    assert opened("b/2/") == ["b/2"]
    assert opened("b/", start_after="b/1/x/~") == ["b", "b/1", "b/2"]
    assert opened("b/", start_after="b/1/\U0010ffff") == ["b", "b/1", "b/2"]
    assert opened("b/", start_after="b/1~") == ["b", "b/2"]
    assert opened("", start_after="b/1~", limit=1) == [".", "b", "b/2"]


def test_lists_look_into_few_folders(root: Path) -> None:
    """An emptied inbox leaves no folders to read, and a limited list reads few."""
    store = LocalStore(root, durable=False, makes_root=True)
    for n in range(300):
        store.create(f"inbox/p{n % 5}/u{n}/{n}.json", b"{}")
    LOOKED_INTO.clear()
    assert len(store.list("inbox/", limit=10)) == 10
    assert len(LOOKED_INTO) == 12
    for entry in store.list("inbox/", limit=300):
        store.delete(entry.key)
    assert not (root / "inbox").exists()


FULL_DISK = """
import sys
from pathlib import Path
from bastion.errors import StoreFullError
from bastion.store.folder.local import LocalStore
store = LocalStore(Path(sys.argv[1]) / "root", makes_root=True)
version = store.create("a", b"old").version
for write in (
    lambda: store.create("b", bytes(1_000_000)),
    lambda: store.swap("a", bytes(1_000_000), if_version=version),
):
    try:
        write()
    except StoreFullError as error:
        print(error.message, "|", error.hint)
assert [(e.key, e.size) for e in store.list("")] == [("a", 3)]
assert not list(Path(sys.argv[1]).glob("root/.tmp/*.tmp"))
store.swap("a", b"new", if_version=version)
store.delete("a")
"""


def test_a_full_disk_is_told_and_changes_nothing(tmp_path: Path) -> None:
    """On a full disk a write is refused in plain words, and the old object stays."""
    script = 'mount -t tmpfs -o size=200k none "$1" && exec "$2" -c "$3" "$1"'
    arguments = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        script,
        "sh",
        str(tmp_path),
        sys.executable,
        FULL_DISK,
    ]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no private mounts here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all("the disk is full | free some space" in line for line in lines)


READ_ONLY = """
import sys
from pathlib import Path
from bastion.errors import StoreRefusedError
from bastion.store.folder.local import LocalStore
store = LocalStore(Path(sys.argv[1]), makes_root=True)
(entry,) = store.list("")
assert store.read("a").data == b"1"
for write in (
    lambda: store.create("b", b"2"),
    lambda: store.swap("a", b"2", if_version=entry.version),
    lambda: store.delete("a"),
):
    try:
        write()
    except StoreRefusedError as error:
        print(error.message)
"""


def test_a_read_only_store_can_be_read(root: Path) -> None:
    """On a read-only filesystem reads and lists work, and writes are refused in plain words."""
    LocalStore(root, makes_root=True).create("a", b"1")
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$2" -c "$3" "$1"'
    arguments = ["unshare", "-rm", "sh", "-c", script, "sh", str(root), sys.executable, READ_ONLY]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no private mounts here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the filesystem is read-only") == 3


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "fuse.sshfs", "fuse.gcsfuse", "9p", "ceph"]
)
def test_filesystems_of_other_machines_are_told_apart(kind: str) -> None:
    """Filesystems that other machines may write to are recognized by their kernel names."""
    assert is_shared(kind)
    assert not any(
        is_shared(own) for own in ("ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "")
    )


def test_the_filesystem_of_a_folder_is_found() -> None:
    """The mount that holds a path is found, whether the path exists or not."""
    assert filesystem_of(Path("/proc/self")) == "proc"
    assert filesystem_of(Path("/sys/no/such")) == "sysfs"


def test_a_root_must_be_an_absolute_folder(tmp_path: Path) -> None:
    """A relative root, or one that is a file, is refused."""
    (tmp_path / "file").touch()
    for root in (Path("relative"), tmp_path / "file"):
        with pytest.raises(StoreRefusedError):
            LocalStore(root, makes_root=True)


def test_a_create_of_what_is_there_writes_nothing(root: Path) -> None:
    """A bundle or an origin that is sent again costs no sync: nothing is written for it."""
    store = LocalStore(root, makes_root=True)
    store.create("a/1", b"first")
    os.utime(root / ".tmp", ns=(0, 0))
    with pytest.raises(ConflictError, match="there is an object at 'a/1'"):
        store.create("a/1", b"second")
    assert (root / ".tmp").stat().st_mtime_ns == 0
    found = store.read("a/1")
    assert found is not None
    assert found.data == b"first"


def ahead(code: str, root: Path) -> str:
    """Return what a program prints whose clock is two hours ahead; it has `root`."""
    program = (
        "import time, sys; now = time.time; time.time = lambda: now() + 7200\n"
        "from pathlib import Path; from bastion.store.folder.local import LocalStore\n"
        f"root = Path({str(root)!r}); store = LocalStore(root)\n{code}"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return ran.stdout


def test_a_program_whose_clock_is_off_writes_the_times_of_the_folder(root: Path) -> None:
    """All processes compare times that were stored, and none may come from a wrong clock."""
    store = LocalStore(root, makes_root=True)
    before = store.create("a", b"1").modified_at
    stored, date = ahead("print(store.create('b', b'').modified_at, store.date())", root).split()
    after = store.create("c", b"1").modified_at
    assert before - 1 < float(stored) < after + 1
    assert before - 1 < float(date) < after + 1


def test_a_program_whose_clock_is_off_sweeps_no_write_in_progress(root: Path) -> None:
    """The age of a temporary file is by the clock that stamped it."""
    LocalStore(root, makes_root=True)
    (root / ".tmp" / "1-ab-0.tmp").write_bytes(b"in progress")
    ahead("", root)
    assert len(temps(root)) == 1


def test_the_date_of_a_folder_is_no_news(root: Path) -> None:
    """It leaves nothing behind, and wakes no bastion that waits for a write."""
    store = LocalStore(root, makes_root=True)
    watch = open_watch(root.as_uri(), "inbox/", SystemClock())
    watch.has_news()
    assert store.date() == pytest.approx(time.time(), abs=60)
    assert not watch.has_news()
    assert temps(root) == []
    store.create("inbox/a", b"1")
    assert watch.has_news()
    watch.close()


def test_a_folder_that_cannot_be_written_has_no_date(root: Path) -> None:
    """Its readers use their own clocks, as before."""
    LocalStore(root, makes_root=True)
    store = LocalStore(root)
    shutil.rmtree(root / ".tmp")
    assert store.date() is None
