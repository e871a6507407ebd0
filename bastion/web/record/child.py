"""
`python -m bastion.web.record.child URL SINCE UNTIL PARTS`: sums up a period, and ends.

DuckDB and a decoded root take hundreds of megabytes for a second or two. In a program of its own
they are given back at once, and the pages go on being answered meanwhile.
"""

from __future__ import annotations

import sys

from bastion.errors import BastionError
from bastion.history.record import Record
from bastion.records.codec import encode
from bastion.store.open import open_store
from bastion.web.record.ask import summary_of

FAILED = 3
"""The exit code where stderr says in one line what is wrong."""


def main(words: list[str]) -> int:
    """Write the summary as JSON to standard output."""
    url, since, until, parts = words
    try:
        record = Record(open_store(url), url)
        summary = summary_of(record, since=float(since), until=float(until), parts=int(parts))
    except BastionError as error:
        sys.stderr.write(error.in_a_line)
        return FAILED
    sys.stdout.buffer.write(encode(summary))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
