"""The files of the record, read by an independent program: Polars."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from bastion.history import Record
from bastion.history.attempt_row import COLUMNS
from bastion.history.compaction import compact
from bastion.records.reports.history import Shares
from bastion.store.folder.local import LocalStore
from tests.bastion.history.log import DAY_S, T0, Bucket


def test_the_files_of_days_are_plain_parquet_in_hive_folders(tmp_path: Path) -> None:
    """It finds every row of past days once, with its day, its times and its types."""
    bucket = Bucket()
    bucket.store = store = LocalStore(tmp_path, makes_root=True)  # type: ignore[assignment]
    for day in range(3):
        begin = T0 + day * DAY_S
        bucket.seal(
            bucket.end(begin + 1.5, machines=("gpu-1-0", "gpu-1-1"), text='said "é😀"\n'),
            bucket.end(begin + 3600, project="red", outcome="failed", exit_code=-9),
            bucket.told(begin + 3700, Shares(nominal={"blue": {"h100": 8}})),
        )
        compact(store)
    bucket.seal(bucket.end(T0 + 3 * DAY_S), bucket.end(T0 + 3 * DAY_S + 4000))
    compact(store)
    found = pl.scan_parquet(f"{tmp_path}/history/attempts/*/*.parquet", hive_partitioning=True)
    table = found.sort("event").collect()
    assert {column.name for column in COLUMNS} | {"dt"} == set(table.columns)
    rows = [row for row in Record(store, tmp_path.as_uri()).attempts() if row.event < 9]
    assert table["event"].to_list() == [row.event for row in rows]
    assert table["guaranteed_device_s"].sum() == sum(row.guaranteed_device_s for row in rows)
    assert table["text"].to_list() == [row.text for row in rows]
    assert table["machines"].to_list() == [list(row.machines) for row in rows]
    assert table["exit_code"].to_list() == [row.exit_code for row in rows]
    ended = [each.replace(tzinfo=UTC).timestamp() for each in table["ended_at"]]
    assert ended == [row.ended_at for row in rows]
    days = [datetime.fromtimestamp(row.ended_at, UTC).strftime("%Y-%m-%d") for row in rows]
    assert [str(day) for day in table["dt"]] == days
    shares = pl.scan_parquet(f"{tmp_path}/history/shares/*/*.parquet", hive_partitioning=True)
    assert shares.collect()["units"].to_list() == [8, 8, 8]
