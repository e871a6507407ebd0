"""`docs/reference/bucket-layout.md` shows the layout of the code."""

from __future__ import annotations

import inspect
import re

from bastion.records.keys import layout
from bastion.records.requests.inbox import MAX_BYTES, PER_OWNER
from bastion.records.requests.job_request import MAX_TARGETS
from bastion.records.root import MAX_ACTIVE_JOBS
from bastion.service.act import bucket_gc as gc
from tests.docs.pages import REPOSITORY

PAGE = (REPOSITORY / "docs" / "reference" / "bucket-layout.md").read_text()


def drawn() -> str:
    """Return the tree in the docstring of `layout.py`."""
    lines = (inspect.getdoc(layout) or "").splitlines()
    return "\n".join(line.removeprefix("    ") for line in lines if line.startswith("    "))


def test_the_tree_is_that_of_the_code() -> None:
    """The page shows the tree that `layout.py` draws."""
    assert f"```\n{drawn()}\n```" in PAGE


def test_every_key_that_can_be_made_is_drawn() -> None:
    """Each function of `layout.py` makes a key that the tree shows."""
    shapes = [
        re.compile(re.sub(r"<[^>]+>", "[^/]+", re.escape(line.split("  ")[0].replace(",", ""))))
        for line in re.sub(r", bundles/packs", "\n  bundles/packs", drawn()).splitlines()[1:]
        for line in [line.strip()]
    ]
    host = {"replica": 0, "host": 1}
    keys = [
        layout.README,
        layout.QUOTA,
        layout.CONFIG,
        layout.ROOT,
        layout.request("p", "u", "U" * 26, "launch"),
        layout.request(layout.ADMIN, "u", "U", "cordon"),
        layout.bell("m", 1, 2),
        layout.answer("p", "u", "U"),
        layout.events(0),
        layout.snapshot("2026-11-21", 1),
        layout.aside("inbox/x"),
        layout.spec("p", "l"),
        layout.result("p", "j"),
        layout.claim("p", "j", 1, "n", **host, machine="m-1-0"),
        layout.end("p", "j", 1, "n", **host, machine="m-1-0"),
        layout.go("p", "j", 1, "n"),
        layout.life("m", 1),
        layout.check("m", "U"),
        layout.argv("m", "U", "d"),
        layout.instructions("m", 1, 1),
        layout.view("queue"),
        layout.wheel("d", "n.whl"),
        layout.day_file("attempts", "2026-11-21", 1, 2),
        layout.recent_file("attempts", 1, 2),
        layout.log("p", "j", 1, **host, process=0) + "000000000000.log",
        layout.usage_segment(layout.usage("p", "j", 1, **host), 1),
        layout.machine_use("m-1-0"),
        layout.command_log("p", "j", "U") + "000000000000.log",
        layout.command_end(layout.command_log("p", "j", "U")),
        layout.bastion_log("b"),
        layout.bastion_log("b-bastion"),
        layout.bastion_log_segments("b") + "1.log",
        layout.output_content("p", "j", "d"),
        layout.saved_output("p", "j", 1, **host, number=1),
        f"{layout.BUNDLES}manifests/d",
        layout.origin("d"),
        layout.inventory("rack.hosts"),
        f"{layout.BUNDLES}packs/d",
    ]
    strangers = [key for key in keys if not any(shape.fullmatch(key) for shape in shapes)]
    assert not strangers
    idle = [shape.pattern for shape in shapes if not any(map(shape.fullmatch, keys))]
    assert not idle


def test_ages_and_limits_are_those_of_the_code() -> None:
    """The numbers on the page are the constants of the code."""
    assert gc.KEEP_S == 30 * gc.DAY_S
    assert gc.HOURLY_S == 2 * gc.DAY_S
    for limit in (f"{MAX_ACTIVE_JOBS:,}", f"{MAX_BYTES >> 20} MiB", f"{MAX_TARGETS:,}", PER_OWNER):
        assert f"| {limit} |" in PAGE
    for prefix in gc.ROUND:
        assert f"`{prefix}" in PAGE
