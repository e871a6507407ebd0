"""`python -m tests.servers.gcs`: the server on its own, until it is interrupted."""

from __future__ import annotations

import argparse
import signal

from tests.servers.gcs import GcsServer

parser = argparse.ArgumentParser(prog="python -m tests.servers.gcs")
parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
parser.add_argument("--bucket", action="append", default=[], help="made at the start; may repeat")
parser.add_argument("--mutation-pause-s", type=float, default=0.0, help="as Google: 1.0")
options = parser.parse_args()
END = {signal.SIGINT, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, END)
with GcsServer(
    *options.bucket, port=options.port, mutation_pause_s=options.mutation_pause_s
) as server:
    print(f"STORAGE_EMULATOR_HOST={server.url}", flush=True)  # noqa: T201
    signal.sigwait(END)
