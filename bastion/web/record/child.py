"""
`python -m bastion.web.record.child URL`: answers one question after the other, and waits.

DuckDB and a decoded root take hundreds of megabytes. A separate process frees them a minute after
the last question, and pages are still served in the meantime. Questions arrive as lines of JSON,
each a `Period`; each answer is a line `[state, bytes]` and the bytes.
"""

from __future__ import annotations

import json
import select
import sys
from typing import BinaryIO

from bastion.clock import SystemClock
from bastion.errors import BastionError
from bastion.history.record import Record
from bastion.records.coding.codec import decode, encode
from bastion.store.open import open_store
from bastion.web.record.kept_tables import KeptTables
from bastion.web.record.question import Period
from bastion.web.record.summary import ANSWERED, FAILED

REST_S = 60.0
"""How long it waits for the next question before it ends."""


def main(words: list[str]) -> int:
    """Answer the questions on standard input until there are none for a while."""
    (url,) = words
    tables: KeptTables | None = None
    while select.select([sys.stdin], [], [], REST_S)[0]:
        question = sys.stdin.buffer.readline()
        if not question:
            break
        period = decode(Period, question, key="the question")
        try:
            tables = tables or KeptTables(Record(open_store(url), url), SystemClock())
            summary = tables.answer(period)
            write_answer(sys.stdout.buffer, ANSWERED, encode(summary))
        except BastionError as error:
            write_answer(sys.stdout.buffer, FAILED, error.in_a_line.encode())
    if tables is not None:
        tables.close()
    return 0


def write_answer(out: BinaryIO, state: str, data: bytes) -> None:
    """Write one answer."""
    out.write(json.dumps([state, len(data)]).encode() + b"\n" + data)
    out.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
