"""
The doors: functions that read bytes from outside, the errors that each may raise, and seeds.

A door is a function that the product calls on bytes that it did not write. Any other error than its
own is a defect; so is time or memory out of proportion to the input.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bastion.agent.home import FolderHome
from bastion.agent.usage.devices import devices_of
from bastion.client.submit.launch_file import read_launch
from bastion.errors import BastionError, NotFoundError
from bastion.machine import Batch
from bastion.marks import NOTICE_FILE, notice
from bastion.records.coding.codec import decode
from bastion.records.coding.limits import REQUEST_VALUES
from bastion.records.keys import layout
from bastion.records.reports.facts import Bell
from bastion.records.reports.registers import ClaimRegister, EndRegister, GoRegister, LifeRegister
from bastion.records.reports.usage import machine_use, unpacked
from bastion.records.requests.answer import Answer
from bastion.records.requests.launch_request import SpecRecord
from bastion.records.requests.request import BODIES
from bastion.records.requests.result import Result
from bastion.records.root import decode_root
from bastion.records.settings.webhooks import is_near
from bastion.service.config.inventory import parse_inventory
from bastion.service.config.pool_config import parse_config
from bastion.spec.arrays.indices import Indices
from bastion.spec.notify import url_problems
from bastion.web.drawing.paging import page_number
from bastion.web.pages.job.log import offset_in
from bastion.web.pages.timeline import view_of
from bastion.web.pages.usage import period_of
from bastion.web.reading.log_window import readable
from bastion.web.reading.trail import events_in
from bundler.bundle.manifest import read_manifest
from bundler.bundle.pack import open_pack
from bundler.errors import BundleError
from bundler.repository.git import tips_in
from bundler.url import redacted
from bundler.url import url_problems as git_problems
from launch.screen.visible import TerminalBytes, visible
from quota.file.config import parse
from quota.file.errors import QuotaError
from tests.rigs.blobs import MemoryBlobs


@dataclass(frozen=True, kw_only=True)
class Door:
    """One function that reads bytes from outside."""

    enter: Callable[[bytes], object]
    errors: tuple[type[Exception], ...] = ()
    """The errors that it may raise."""
    seeds: tuple[bytes, ...] = field(default=())


def _json(*bodies: Any) -> tuple[bytes, ...]:
    return tuple(json.dumps({"schema": 1, **body}).encode() for body in bodies)


DEEP = b"[" * 5_000 + b"]" * 5_000
DIGITS = "9" * 5_000
HUGE = (1e300, -1e12, float("nan"), float("inf"), 10**30, -5, 2**63, DIGITS)
OF = {"project": "p", "job": "j", "attempt": 1, "nonce": "n", "replica": 0, "host": 0}
END = {"kind": "exited", "codes": [0]}
JOB = {"processes": [{"command": ["true"]}]}
ODD = (
    b"",
    b"{}",
    b"null",
    b"[1]",
    DEEP,
    b'{"a":' * 2_000,
    b"\xff\xfe",
    b'{"schema":1}',
    b"\0" * 99,
)


def _requests() -> Iterable[bytes]:
    ranges = ",".join(["0-999999:2"] * 100)
    yield from _json(
        {"targets": [f"x-0123456789.{DIGITS}"]},
        {"targets": [f"x-0123456789.{ranges}"]},
        {"targets": ["x-0123456789.0-999999:2"] * 200},
        {"targets": [5] * 20_000},
        {"targets": ["x" * 100_000]},
        {"targets": ["j"], "max_runtime_s": 1e308, "priority": 10**30},
    )
    for launch in (
        {"code": {"kind": "git", "url": "https://" + "a" * 100_000, "commit": "0" * 40}},
        {"notify": [5] * 4_000},
        {"notify": ["http://x@y/" * 1_000]},
        {"jobs": [{"processes": [{"command": 5}] * 50}] * 200},
        {
            "jobs": [{"processes": [{"command": ["{x}" * 20_000]}]}],
            "sweep": {"grid": {"x": ["a" * 99_999]}},
        },
        {"jobs": [{**JOB, "secrets": [{"name": "N" * 200_000}]}]},
        {"jobs": [{**JOB, "retries": 10**30, "replicas": 10**30, "grace": 1e308}]},
        {"array": ranges},
        {"sweep": {"grid": {f"p{n}": [1, 2] for n in range(100)}}},
        {"after": ["j"] * 10_000},
    ):
        yield from _json({"launch": {"name": "x", "jobs": [JOB], **launch}})


def _bells() -> Iterable[bytes]:
    for number in HUGE:
        yield from _json(
            {"facts": [{"kind": "held", "of": OF, "for_s": number, "folder": "/", "end": END}]},
            {"facts": [{"kind": "reported", "of": OF, "numbers": {"a": number}}]},
            {
                "facts": [
                    {
                        "kind": "hello",
                        "resources": {"h100": number},
                        "address": "a",
                        "hostname": "h",
                        "version": "0",
                    }
                ]
            },
            {
                "facts": [
                    {
                        "kind": "claimed",
                        "of": OF,
                        "claim": {"machine": "m", "life": number, "address": "a", "port": number},
                    }
                ]
            },
            {"facts": [{"kind": "health", "bad_devices": {"h100": [number]}}]},
            {
                "facts": [
                    {"kind": "ended", "of": OF, "end": {**END, "ran_s": number, "codes": [number]}}
                ]
            },
        )


def _decoded(*kinds: Any) -> Callable[[bytes], object]:
    def enter(data: bytes) -> None:
        for kind in kinds:
            try:
                decode(kind, data, key="k", most_values=REQUEST_VALUES)
            except BastionError as error:
                assert len(error.message) < 100_000, "an error tells without end"

    return enter


def _text(work: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: work(data.decode(errors="replace"))


def _marks(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = FolderHome(Path(folder))
        marks = Path(home.folders("k").marks)
        for name in ("report", "finished", "checkpointed", "container.json"):
            (marks / name).write_bytes(data)
        home.marks("k")
        home.word("k")
        home.number("instructions", 1)


def _manifest(data: bytes) -> None:
    blobs = MemoryBlobs()
    for stored in (data, zlib.compress(data)):
        digest = hashlib.sha256(stored).hexdigest()
        blobs.create(f"manifests/{digest}", stored)
        try:
            read_manifest(digest, blobs)
        except BundleError:
            continue


def _pack(data: bytes) -> None:
    for packed in (
        data,
        b"bastion-pack 1 zlib\n" + zlib.compress(data),
        b"bastion-pack 1 plain\n" + data,
    ):
        try:
            for _ in open_pack(hashlib.sha256(packed).hexdigest(), packed):
                pass
        except BundleError:
            continue


def _notice(data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        before = os.environ.get(NOTICE_FILE)
        os.environ[NOTICE_FILE] = file.name
        try:
            notice()
        finally:
            del os.environ[NOTICE_FILE]
            os.environ |= {} if before is None else {NOTICE_FILE: before}


PARSERS = tuple(getattr(layout, name) for name in dir(layout) if name.startswith("parse_"))


def _samples(data: bytes) -> None:
    devices_of(data)
    for read in (unpacked, machine_use):
        with contextlib.suppress(BastionError):
            read(data, key="k")


def _keys(key: str) -> None:
    for parsed in PARSERS:
        parsed(key)


def _addresses(text: str) -> None:
    url_problems("url", text)
    git_problems(text)
    is_near(text)
    redacted(text)


def _terminal(data: bytes) -> None:
    assert b"\x07" not in TerminalBytes().safe(data, final=True)
    assert "\x07" not in visible(data.decode(errors="replace"))


def _page_addresses(text: str) -> None:
    query = dict.fromkeys(("from", "to", "span", "days", "page", "at", "attempt", "replica"), text)
    timeline = view_of(query, 1_795_000_000.0)
    assert timeline.since < timeline.until
    period_of(query, 1_795_000_000.0)
    page_number(text)
    offset_in(query)


def _launch_file(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "launch.toml"
        path.write_bytes(data)
        read_launch(path)


TOML = (
    b"",
    b"a" * 100_000,
    b"[" * 5_000,
    b"a = " + DIGITS.encode(),
    b'"' * 9_999,
    b"\xef\xbb\xbf[x]",
)
URLS = (
    b"https://" + b"a" * 100_000,
    b"a" * 300_000,
    b"https://u:p@ss@h/x " * 5_000,
    b"ssh://-oProxyCommand=x/y",
    b"http://[::ffff:169.254.169.254]:99999/",
    b"git@host:" + b"/" * 50_000,
)
KEYS = tuple(
    f"{before}{DIGITS}{after}".encode()
    for before, after in (
        ("inbox/_bell/p/m/", "-1.json"),
        ("machines/p/m-1-0/life/", ""),
        ("instructions/p/m-1-0/1/", ".json"),
        ("run/p/q/j/a", "-n/r0/h0/end"),
        ("logs/p/j/a1/r0/h0/p0/", ".log"),
        ("state/log/", ".jsonl"),
        ("state/snap/2026-01-01/", ".json"),
        ("output/p/j/saved/a", "/r0/h0/1.json"),
        ("logs/p/j/a1/r0/h0/usage/", ".json.gz"),
        ("usage/p/p-1-", ".json"),
    )
)

DOORS: dict[str, Door] = {
    "requests": Door(enter=_decoded(*set(BODIES.values())), seeds=(*ODD, *_requests())),
    "bells": Door(enter=_decoded(Bell), seeds=(*ODD, *_bells())),
    "registers": Door(
        enter=_decoded(ClaimRegister, EndRegister, GoRegister, LifeRegister),
        seeds=(*ODD, *_json(*({"write_id": "w", "end": {**END, "ran_s": n}} for n in HUGE))),
    ),
    "batches": Door(enter=_decoded(Batch), seeds=(*ODD, *_json({"number": 1, "life": 10**30}))),
    "records": Door(enter=_decoded(SpecRecord, Answer, Result), seeds=ODD),
    "root": Door(enter=decode_root, errors=(BastionError,), seeds=(*ODD, b"\x1f\x8b" + b"x" * 99)),
    "quota file": Door(enter=_text(parse), errors=(QuotaError,), seeds=TOML),
    "inventory": Door(
        enter=_text(partial(parse_inventory, "rack.hosts")),
        errors=(BastionError,),
        seeds=(b"gpu1 shard=rl # one\nroot@gpu2 cluster=a", b"[rack]\n-oX=y a=b=c containers=true"),
    ),
    "configuration": Door(enter=_text(parse_config), errors=(BastionError,), seeds=TOML),
    "launch file": Door(enter=_launch_file, errors=(BastionError, NotFoundError), seeds=TOML),
    "marks": Door(
        enter=_marks, seeds=(*ODD, b'{"a": 1e999}\n', b'{"a": ' + DIGITS.encode() + b"}\n")
    ),
    "manifests": Door(enter=_manifest, seeds=(*ODD, b" " * 3_000_000)),
    "packs": Door(enter=_pack, seeds=(*ODD, b"[]\n", b" " * 3_000_000)),
    "addresses": Door(enter=_text(_addresses), seeds=URLS),
    "git answers": Door(
        enter=lambda data: (tips_in(data), redacted(data.decode(errors="replace"))),
        seeds=(b"", b"no tab", b"\xff\t\xff", b"0" * 40 + b"\tHEAD\n", b"x\ty\tz\n" * 9_999),
    ),
    "notices": Door(enter=_notice, errors=(ValueError, RecursionError), seeds=ODD),
    "indices": Door(
        enter=_text(Indices.parse),
        errors=(BastionError,),
        seeds=(DIGITS.encode(), b"0-999999:2", b",".join([b"0-999999:2"] * 500), b"1," * 50_000),
    ),
    "samples": Door(
        enter=_samples,
        errors=(BastionError,),
        seeds=(*ODD, gzip.compress(b" " * 3_000_000), gzip.compress(b"[]"), b"\x1f\x8b\x08\xff"),
    ),
    "keys": Door(enter=_text(_keys), seeds=KEYS),
    "log on a page": Door(
        enter=readable, seeds=(b"\x1b]0;x\x07", b"\x1b[" * 9_999, b"\r" * 99_999, b"\x1b]" * 50_000)
    ),
    "events in root": Door(
        enter=events_in, seeds=(*ODD, b'"events":[' * 20_000, b'"events":' + b"[" * 99_999)
    ),
    "addresses of pages": Door(
        enter=_text(_page_addresses),
        seeds=(DIGITS.encode(), b"9999-99-99", b"0001-01-01T00:00:00+23:59", "\u0663".encode()),
    ),
    "terminal": Door(
        enter=_terminal, seeds=(b"\x1b]0;x\x07", b"\x1b[" * 9_999, b"\xc2\x9b" * 9_999)
    ),
}


def enter(name: str, data: bytes) -> None:
    """Call a door with `data`; its own errors are expected."""
    door = DOORS[name]
    try:
        door.enter(data)
    except door.errors:
        return
