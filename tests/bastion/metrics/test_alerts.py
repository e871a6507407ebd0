"""The alerts and the dashboard of `examples/metrics` are correct with one source or two."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bastion.metrics.prometheus import PrometheusMeter
from tests.house import rules

EXAMPLES = rules.REPOSITORY / "examples" / "metrics"
GUIDE = rules.REPOSITORY / "docs" / "guides" / "watch-it.md"
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (Debian's prometheus) is not installed"
)


def told_by_both() -> set[str]:
    """Return the gauges that, according to the guide, a bastion and its pages both export."""
    rows = re.findall(r"^\| (`bastion_[^|]*) \| both \|", GUIDE.read_text(), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"bastion_[a-z_]+", row)}


def queries() -> Iterator[tuple[str, str]]:
    """Yield every query of the dashboard and the alerts, with its panel or alert."""
    for panel in json.loads((EXAMPLES / "grafana.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    text = (EXAMPLES / "rules.yml").read_text()
    for alert in re.split(r"- alert: ", text)[1:]:
        name, _, rest = alert.partition("\n")
        (expr,) = re.findall(r"expr: (?:>-\n)?(.*?)\n +for:", rest, re.DOTALL)
        yield name, " ".join(expr.split())


def test_what_two_tell_is_summed_up_once() -> None:
    """Scraping a bastion and its pages doubles no sum: common values are counted once."""
    both = told_by_both() - {"bastion_store_seconds"}  # each counts its own calls
    assert {"bastion_jobs", "bastion_devices", "bastion_preemptions_total"} <= both
    seen = set()
    for title, query in queries():
        for found in re.finditer(r"(bastion_[a-z_]+)", query):
            name = re.sub(r"_(bucket|count|sum)$", "", found[1])
            if name not in both:
                continue
            seen.add(name)
            before = query[: found.start()]
            once = re.search(
                r"max(?: (?:without|by) \([a-z, ]*\))? ?\((?:rate\(|increase\()?$", before
            )
            assert once, (title, query)
    assert len(seen) >= 12


def test_every_query_names_the_bucket_it_is_about() -> None:
    """A dashboard of several buckets shows the selected ones, and an alert says which."""
    for title, query in queries():
        if title.startswith("Bastion"):
            assert not re.search(r"\bby \((?!bucket\b)", query), (title, query)
        else:
            assert query.count("bastion_") == query.count('bucket=~"$bucket"'), (title, query)


def test_a_process_that_never_led_tells_nothing_of_commits() -> None:
    """A page server or a standby exports no false zero of commits or strangers."""
    meter = PrometheusMeter()
    meter.looked({}, {}, {"seq": 7, "leader": "b"})
    text = meter.answer("")[0].decode()
    assert "bastion_commit_seq 7" in text
    assert "bastion_commits" not in text
    assert "bastion_stranger_machines" not in text
    meter.committed([], {})
    meter.committed([], {})
    text = meter.answer("")[0].decode()
    assert "bastion_commits_total 2.0" in text
    assert "bastion_stranger_machines 0.0" in text


def test_a_bastion_that_lost_the_lead_tells_no_old_views() -> None:
    """Its published values are dropped once another leads; its counters stay."""
    meter = PrometheusMeter()
    meter.committed([], {})
    meter.published({"status": {"leader": "a", "seq": 7, "now": 1.0}})
    assert "bastion_leads 1.0" in meter.answer("")[0].decode()
    meter.rested()
    text = meter.answer("")[0].decode()
    assert "bastion_leads" not in text
    assert "bastion_commits_total 1.0" in text


@needs_promtool
@pytest.mark.prove
def test_each_alert_fires_for_what_it_names(tmp_path: Path) -> None:
    """Prometheus' own rule tests run: a healthy bastion has none, each problem has its own."""
    shutil.copy(EXAMPLES / "rules.yml", tmp_path)
    shutil.copy(Path(__file__).with_name("alerts.yml"), tmp_path)
    ran = subprocess.run(
        ["promtool", "test", "rules", "alerts.yml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = set(re.findall(r"alertname: (\w+)", (tmp_path / "alerts.yml").read_text()))
    assert told == {title for title, _ in queries() if title.startswith("Bastion")}


@needs_promtool
@pytest.mark.prove
def test_prometheus_takes_the_configuration_of_the_guide(tmp_path: Path) -> None:
    """The lines in the guide are a valid configuration, and scraped data is clean."""
    (text,) = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (tmp_path / "prometheus.yml").write_text(text)
    shutil.copy(EXAMPLES / "rules.yml", tmp_path)
    check = ["promtool", "check", "config", "prometheus.yml"]
    ran = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    meter = PrometheusMeter()
    meter.committed([], {})
    meter.turned(0.1, moved=True)
    answer = meter.answer("text/plain")[0]
    ran_metrics = subprocess.run(
        ["promtool", "check", "metrics"], input=answer, capture_output=True
    )
    assert ran_metrics.returncode == 0, ran_metrics.stdout + ran_metrics.stderr
