"""SQL of users: what it can read, and the errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bastion.array import new_array, taken
from bastion.clock import VirtualClock
from bastion.errors import SpecError
from bastion.history import Record
from bastion.history.ask.query import query
from bastion.history.compaction import compact
from bastion.records.keys import layout
from bastion.records.root import Root, RootWriter
from bastion.spec.arrays.indices import Indices
from bastion.store.folder.local import LocalStore
from tests.bastion.history.log import DAY_S, T0, Bucket
from tests.rigs import job_records
from tests.rigs.limits import PATIENCE_S, killed


def record(folder: Path) -> Record:
    """Return a record of two days in a folder: one in Parquet, one in the log."""
    bucket = Bucket()
    store = LocalStore(folder, makes_root=True, durable=False)
    bucket.store = store  # type: ignore[assignment]
    bucket.seal(bucket.end(T0), bucket.end(T0 + 5000))
    bucket.seal(bucket.end(T0 + DAY_S), bucket.end(T0 + DAY_S + 100))
    compact(store)
    return Record(store, folder.as_uri())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a bucket that has a record, and a secret beside it; queries change neither."""
    place = tmp_path_factory.mktemp("query")
    (place / "secret.csv").write_text("password\n")
    record(place / "bucket")
    return place


@pytest.fixture(scope="module")
def known(folder: Path) -> Record:
    """Return the record in that bucket."""
    return record_of(None, folder / "bucket")


def test_ctrl_c_ends_a_long_question(folder: Path) -> None:
    """It is an ordinary interrupt, not an error of DuckDB's, and takes effect soon."""
    script = (
        "import os, signal, threading\n"
        "from pathlib import Path\n"
        "from bastion.history.ask.query import query\n"
        "from tests.bastion.history.ask.test_query import record_of\n"
        f"known = record_of(None, Path({str(folder / 'bucket')!r}))\n"
        "threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n"
        "    query(known, 'SELECT count(*) FROM range(1000000000000000)')\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ran.returncode, ran.stdout) == (0, "interrupted\n"), ran.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_a_question_leaves_no_folder(
    folder: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """The process ends by the signal, as any other, once its temporary folder is removed."""
    script = (
        "from pathlib import Path\n"
        "from bastion.history.interruption import interruptible\n"
        "from tests.bastion.history.ask.test_query import record_of\n"
        f"known = record_of(None, Path({str(folder / 'bucket')!r}))\n"
        "with known.opened() as connection, interruptible(connection):\n"
        "    print('begun', flush=True)\n"
        "    connection.execute('SELECT count(*) FROM range(1000000000000000)')\n"
    )
    asked = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
    )
    assert asked.stdout is not None
    try:
        assert asked.stdout.readline() == b"begun\n"
        assert list(tmp_path.glob("bastion-history-*"))
        asked.send_signal(number)
        assert asked.wait(PATIENCE_S) == -number
    finally:
        killed(asked)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/Los_Angeles"])
def test_a_time_with_a_zone_is_compared_in_utc(folder: Path, zone: str) -> None:
    """`ended_at > now()` is correct in any time zone."""
    script = (
        "from pathlib import Path\n"
        "from bastion.history.ask.query import query\n"
        "from tests.bastion.history.ask.test_query import record_of\n"
        f"known = record_of(None, Path({str(folder / 'bucket')!r}))\n"
        "at = \"TIMESTAMPTZ '2024-10-05 00:00:30+00'\"\n"
        "sql = f'SELECT count(*), {at}::TIMESTAMP FROM attempts WHERE ended_at > {at}'\n"
        "print(*query(known, sql).rows[0])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "TZ": zone},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.stdout == "1 2024-10-05 00:00:30\n", ran.stderr


def test_sql_reads_every_row_once(tmp_path: Path) -> None:
    """Rows in Parquet and in the log are one table; times are timestamps."""
    found = query(
        record(tmp_path),
        "SELECT count(*) AS n, sum(guaranteed_device_s) AS s, max(ended_at) AS last FROM attempts",
    )
    assert found.columns == ("n", "s", "last")
    assert found.rows[0][:2] == (4, 4 * 480.0)
    assert str(found.rows[0][2]) == "2024-10-05 00:01:40"
    tables = query(record_of(found, tmp_path), "SHOW TABLES")
    assert {"attempts", "events", "shares", "running"} <= {row[0] for row in tables.rows}


def test_the_wait_of_a_job_in_the_queue_can_be_asked(tmp_path: Path) -> None:
    """It has its present turn and its time since submission; an array's waiting tasks count."""
    store = LocalStore(tmp_path, makes_root=True, durable=False)
    job = replace(job_records.queued(), submitted_at=T0, queued_at=T0 + 500.0)
    many = new_array(replace(job, id="many"), Indices.of(range(7)), at_once=None)
    jobs = {job.id: job, "runs": replace(job_records.running(), id="runs")}
    root = Root(
        epoch=1, seq=1, now=T0 + 520.0, write_id="w", jobs=jobs, arrays={"many": taken(many, 3)}
    )
    store.create(layout.ROOT, RootWriter(store, VirtualClock()).encoded(root))
    found = query(
        record_of(None, tmp_path),
        "SELECT job, tasks, epoch(ended_at - queued_at), epoch(ended_at - submitted_at)"
        " FROM waiting ORDER BY job",
    )
    assert found.rows == (("many", 6, 20.0, 520.0), ("train-1", None, 20.0, 520.0))


def record_of(_: object, folder: Path) -> Record:
    """Return the same record again."""
    return Record(LocalStore(folder, durable=False), folder.as_uri())


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT * FROM attemps", "no table 'attemps'; .* nearest is attempts"),
        (
            "SELECT projct FROM attempts",
            "no column .projct.; allowed are admitted_at, .* nearest is project",
        ),
        ("SELECT FROM", "syntax error"),
        ("", "query: no statement was given; one SELECT"),
        ("SELECT 1; SELECT 2", "SELECT, SELECT is not allowed"),
        ("SELECT now()", "a time with a time zone cannot be shown"),
        ("DROP VIEW attempts", "DROP is not allowed"),
        ("COPY (SELECT 1) TO 'x.csv'", "COPY is not allowed"),
        ("SET threads = 1", "SET is not allowed"),
        ("SELECT a.nam FROM attempts a", "no column 'nam'; .* nearest is name"),
        ("SELECT t.nam FROM (SELECT name FROM attempts) t", "no column 'nam'; .* nearest is name"),
        ("SELECT * EXCLUDE (projct) FROM attempts", "no column 'projct'; .* nearest is project"),
        ("FROM attempts JOIN running USING (jobb)", "no column 'jobb'; .* nearest is job"),
        ("SELECT x.name FROM attempts a", "'x' is not a table of this FROM; allowed is a$"),
        ("SELECT attemps.name FROM attempts", "'attemps' is not .* nearest is attempts$"),
        ("SELECT sm(cost) FROM attempts", "no function 'sm'; nearest are .*sum"),
        ("SELECT qqqq(1)", "no function 'qqqq'"),
        ("FROM rnge(3)", "no table function 'rnge'; nearest .* range"),
        ("SELECT strptime(name) FROM attempts", r"no strptime\(VARCHAR\); it takes strptime\("),
        ("SELECT name::INTGER FROM attempts", "no type 'INTGER'; .* nearest is INTEGER"),
        ("SELECT 1/0 + 'x'", "could not convert"),
        ("SELECT INTERVAL 100000000 YEAR", "a value cannot be shown: Python int too large"),
    ],
)
def test_a_wrong_query_is_told_what_is_right(known: Record, sql: str, words: str) -> None:
    """An error in a query is one line, with the probable intention."""
    with pytest.raises(SpecError, match=words) as error:
        query(known, sql)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM '{secret}'",
        "SELECT * FROM read_csv('{secret}')",
        "SELECT * FROM read_text('{secret}')",
        "SELECT * FROM read_blob('{root}/state/log/*')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM read_parquet('{root}/../secret.csv')",
        "SELECT * FROM sniff_csv('{secret}')",
        "SELECT * FROM 'https://example.org/x.csv'",
        "FROM duckdb_secrets(), read_text('{secret}')",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{root}/out.csv'",
        "SELECT (SELECT content FROM read_text('{secret}'))",
    ],
)
def test_sql_reaches_no_file_of_this_machine(folder: Path, known: Record, sql: str) -> None:
    """No statement reads or writes a file beside the record's, in any form."""
    secret, root = folder / "secret.csv", folder / "bucket"
    with pytest.raises(SpecError):
        query(known, sql.format(secret=secret, root=root))
    assert not (root / "out.csv").exists()


@pytest.mark.parametrize("start", ["EXPLAIN ANALYZE", "EXPLAIN (ANALYZE)", "EXPLAIN"])
def test_sql_does_not_write_to_the_files_that_it_reads(tmp_path: Path, start: str) -> None:
    """The files of a folder are read in place, and explaining a statement would run it."""
    known = record(tmp_path)
    (file,) = tmp_path.glob("history/attempts/*/*.parquet")
    before = file.read_bytes()
    with pytest.raises(SpecError, match="EXPLAIN is not allowed; one SELECT"):
        query(known, f"{start} COPY (SELECT 1) TO '{file}' (USE_TMP_FILE false)")
    assert file.read_bytes() == before


def test_sql_cannot_lift_its_restrictions(known: Record) -> None:
    """Settings are locked, no Python variable is visible, and `pg_catalog` shows no secret."""
    hidden = [("password",)]
    with pytest.raises(SpecError, match="no table 'hidden'"):
        query(known, "SELECT * FROM hidden")
    assert hidden
    settings = query(
        known,
        "SELECT name, value FROM duckdb_settings() WHERE name IN"
        " ('enable_external_access', 'lock_configuration')",
    )
    assert dict(settings.rows) == {"enable_external_access": "false", "lock_configuration": "true"}  # type: ignore[arg-type]


def test_a_long_answer_is_cut(known: Record) -> None:
    """Rows beyond the limit are cut off, with a note."""
    found = query(known, "FROM range(200000)")
    assert found.is_cut
    assert len(found.rows) == 100_000
