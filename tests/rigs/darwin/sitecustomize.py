"""
Makes a Python on Linux lack what Python on macOS lacks, if this folder is in PYTHONPATH.

Source: the availability notes of Python's library reference, and typeshed's `sys.platform` checks.
The rest is still Linux: names of errors, file systems, limits of paths.
"""

from __future__ import annotations

import os
import select
import sys
import time

ABSENT = {
    os: """copy_file_range eventfd eventfd_read eventfd_write fdatasync getrandom getresgid
        getresuid getxattr listxattr memfd_create pidfd_open pipe2 posix_fadvise posix_fallocate
        removexattr sched_getaffinity sched_setaffinity setns setresgid setresuid setxattr splice
        unshare waitid O_DIRECT O_LARGEFILE O_NOATIME O_PATH O_TMPFILE""",
    select: "epoll EPOLLET EPOLLIN EPOLLOUT",
    time: "CLOCK_BOOTTIME CLOCK_TAI",
}
"""Module -> names."""


def _without_proc(event: str, args: tuple[object, ...]) -> None:
    """Raise FileNotFoundError for files of /proc and /sys."""
    path = args[0] if event in ("open", "os.listdir", "os.scandir") else None
    if isinstance(path, str) and path.startswith(("/proc/", "/sys/")):
        raise FileNotFoundError(2, "No such file or directory", path)


def _sendfile(writer: int, reader: int, offset: int, count: int) -> int:
    raise OSError(38, "Socket operation on non-socket")


for module, names in ABSENT.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
os.sendfile = _sendfile  # type: ignore[assignment]

# After the deletions: these look at what `os` and `select` have.
import platform  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import sysconfig  # noqa: E402

for name in ("pidfd_send_signal", "sigtimedwait", "sigwaitinfo", "SIGPWR", "SIGRTMIN", "SIGRTMAX"):
    if hasattr(signal, name):
        delattr(signal, name)
for name in ("AF_NETLINK", "SOCK_CLOEXEC", "SOCK_NONBLOCK", "SO_PEERCRED"):
    if hasattr(socket, name):
        delattr(socket, name)
sysconfig.get_config_vars()  # its file is named after the platform
platform.system = lambda: "Darwin"
sys.platform = "darwin"
sys.addaudithook(_without_proc)
