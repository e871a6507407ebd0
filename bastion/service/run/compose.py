"""The composition of a bastion: settings become adapters, lanes and loops."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bastion.bucket_name import bucket_name_from_url
from bastion.clock import Clock, SystemClock
from bastion.errors import BastionError, SpecError, StoreError, StoreFullError, StoreRefusedError
from bastion.history.parquet import has_duckdb
from bastion.lane import ThreadLane
from bastion.machine import Pool
from bastion.metrics.meter import NO_METER, Meter
from bastion.metrics.metered_store import MeteredStore
from bastion.profile import as_url
from bastion.provider.agent_environment import has_own_credentials
from bastion.provider.build import build_digest
from bastion.provider.machine_folder import started
from bastion.provider.open import INSTALLS, open_provider
from bastion.provider.own_hosts.resolve import hosts_named_twice
from bastion.provider.serving import machines_of
from bastion.records.keys import layout
from bastion.records.root import Held, RootWriter
from bastion.service.act.machines import Machines, OpenPool
from bastion.service.act.notifications import Notifier
from bastion.service.act.own_wheel import WheelUpload
from bastion.service.act.webhook import post
from bastion.service.compaction import Compaction, compact_in_process
from bastion.service.config.admin_files import AdminFiles
from bastion.service.config.settings import LOCAL, ServeSettings
from bastion.service.journal import Journal
from bastion.service.kept_log import KeptLog
from bastion.service.leader import Leader
from bastion.service.publish.bucket_readme import write_readme
from bastion.service.publish.views import Publisher
from bastion.service.run.election import Candidate, Election
from bastion.service.run.own_process import boot, is_alive
from bastion.service.run.serve import STORE, STORE_RETRY_S, Service
from bastion.store import ObjectStore, open_store
from bastion.store.open import address_of, open_watch
from bastion.store.probe import probe

WEBHOOK_WORKERS = 16
"""Webhooks that can hang at the same time before others wait, at most for one deadline."""
_QUOTA_HINT = "write a path, or a URL as gs://PRIVATE/quota.toml"
_REFUSALS = 3
"""Refusals of the store in a row, a second apart, that end a bastion which starts."""
PROVIDER_WORKERS = 4
"""Threads of each pool's lane."""


def compose(
    settings: ServeSettings,
    *,
    is_stopping: Callable[[], bool],
    is_over: Callable[[], bool] | None = None,
    nonce: Callable[[], str],
) -> Service:
    """
    Return the bastion that `settings` describe.

    Args:
        settings: From the command line.
        is_stopping: Whether the process was asked to stop.
        is_over: Whether the time to stop has run out. None: it never does.
        nonce: Returns fresh names for commits and attempts.

    Raises:
        SpecError: A URL is malformed or of an unknown kind.
        StoreRefusedError: The store cannot be used, or ignores preconditions.
    """
    clock = SystemClock()
    store = _store(settings)
    journal = Journal(settings.name, clock, level=settings.log_level, as_json=settings.log_as_json)
    journal.note(f"serves {settings.root_url}")
    meter = _meter(settings, journal)
    store = store if meter is NO_METER else MeteredStore(store, meter, clock)
    _probe(store, clock, journal, is_stopping, pause_s=settings.pace.commit_s)
    log = KeptLog(journal, store, clock, ThreadLane("log", workers=1))
    doubt = partial(_report_doubt, journal, log)
    writer = _writer(settings, store, clock, is_over, doubt)
    quota_place = _quota_place(settings, store)

    def lead(held: Held) -> Leader:
        write_readme(store)
        # A term shares no state with the previous one: another bastion may have led in between.
        opener = _pool_opener(settings, store, journal, bucket=held.root.bucket)
        machines = Machines(clock, journal, opener, listing_s=settings.pace.listing_s)
        webhooks = ThreadLane("webhooks", workers=WEBHOOK_WORKERS)
        files = _admin_files(settings, store, clock, quota_place)
        return Leader(
            held,
            store=store,
            writer=writer,
            clock=clock,
            machines=machines,
            files=files,
            publisher=_publisher(settings, store, clock, meter),
            notifier=Notifier(clock, journal, webhooks, post),
            lane=ThreadLane("store", workers=settings.workers),
            spec_lane=ThreadLane("specs", workers=settings.workers),
            pace=settings.pace,
            nonce=nonce,
            journal=journal,
            meter=meter,
            compaction=_compaction(settings, journal),
        )

    return Service(
        _election(settings, writer, clock, nonce),
        lead,
        clock,
        journal,
        log,
        pace=settings.pace,
        is_stopping=is_stopping,
        is_over=is_over or (lambda: False),
        standby=settings.standby,
        meter=meter,
        watch=open_watch(settings.root_url, layout.INBOX, clock),
    )


def _writer(
    settings: ServeSettings,
    store: ObjectStore,
    clock: Clock,
    is_over: Callable[[], bool] | None,
    doubt: Callable[[BastionError], None],
) -> RootWriter:
    is_folder = settings.pace == LOCAL
    return RootWriter(store, clock, compress=not is_folder, is_over=is_over, when_in_doubt=doubt)


def _report_doubt(journal: Journal, log: KeptLog, failure: BastionError) -> None:
    """Report from inside a commit that it stays in doubt: its turn does not end meanwhile."""
    journal.problem(STORE, failure)
    log.flush()


def _publisher(
    settings: ServeSettings, store: ObjectStore, clock: Clock, meter: Meter
) -> Publisher:
    return Publisher(
        store,
        clock,
        every_s=settings.pace.view_s,
        meter=meter,
        machines_place=(
            (socket.gethostname(), str(settings.machines_dir))
            if settings.pace == LOCAL
            else ("", "")
        ),
    )


def _election(
    settings: ServeSettings, writer: RootWriter, clock: Clock, nonce: Callable[[], str]
) -> Election:
    return Election(
        writer,
        clock,
        _candidate(settings),
        is_alive=is_alive,
        nonce=nonce,
        old_name=bucket_name_from_url(settings.root_url),
        address=address_of(settings.root_url),
        is_moved=settings.moved,
    )


def _meter(settings: ServeSettings, journal: Journal) -> Meter:
    """Return the meter that answers Prometheus; if it cannot, the bastion continues without it."""
    port, host = settings.metrics_port, settings.metrics_host
    if port is None:
        return NO_METER
    try:
        from bastion.metrics.port import open_port
        from bastion.metrics.prometheus import PrometheusMeter

        meter = PrometheusMeter()
        taken, _ = open_port(meter, host, port)
    except ImportError:
        why = "prometheus-client is not installed: pip install 'bastion-orchestrator[metrics]'"
    except (OSError, OverflowError) as error:
        why = f"port {port} of {host}: {getattr(error, 'strerror', None) or error}"
    else:
        journal.note(f"metrics are at http://{host}:{taken}/metrics")
        return meter
    journal.note(f"no metrics: {why}", level="warning")
    return NO_METER


def _compaction(settings: ServeSettings, journal: Journal) -> Compaction | None:
    """Return the compaction of the history; None without DuckDB: the log then keeps all of it."""
    if not has_duckdb():
        journal.lack(
            "history",
            "DuckDB is not installed where the bastion runs, so the history is not written as"
            " Parquet, and state/log/ keeps growing; pip install 'bastion-orchestrator[history]',"
            " then start it again",
        )
        return None
    lane = ThreadLane("history", workers=1)
    return Compaction(lane, journal, compact_in_process(settings.root_url))


def _probe(
    store: ObjectStore,
    clock: Clock,
    journal: Journal,
    is_stopping: Callable[[], bool],
    *,
    pause_s: float,
) -> None:
    """
    Probe `store` once it can be reached and has room.

    A bastion may be started during an outage or on a full disk; then it waits. The third of any
    other refusals in a row ends it: rights that were just granted are refused for a moment.
    """
    told: StoreError | None = None
    refusals = 0
    while not is_stopping():
        try:
            probe(store, pause=lambda: clock.sleep(pause_s))
            return
        except StoreError as error:
            is_refusal = isinstance(error, StoreRefusedError)
            refusals = refusals + 1 if is_refusal and not isinstance(error, StoreFullError) else 0
            if refusals == _REFUSALS:
                raise
            if refusals:
                clock.sleep(STORE_RETRY_S)
                continue
            # Each try names a new object, so each would be another problem.
            told = told if told and type(told) is type(error) else error
            journal.problem(STORE, told)
            clock.sleep(STORE_RETRY_S)


def _store(settings: ServeSettings) -> ObjectStore:
    """
    Open the bucket; a folder without one gets a new bucket, unless this one had machines before.

    A bucket in a folder has machines only on its own machine. If there are some and the folder is
    empty, it is probably not mounted. A new bucket in its place would take over its machines.
    """
    known = machines_of(settings.machines_dir, settings.root_url, is_own=True)
    return open_store(settings.root_url, makes_root=not known)


def _admin_files(
    settings: ServeSettings, store: ObjectStore, clock: Clock, quota_place: tuple[ObjectStore, str]
) -> AdminFiles:
    quota_store, quota_key = quota_place
    return AdminFiles(
        store,
        quota_store,
        clock,
        quota_key=quota_key,
        quota_place=_place_in_words(settings.quota_url),
        every_s=settings.pace.files_s,
        shared_hosts=hosts_named_twice,
    )


def _place_in_words(said: str) -> str:
    """Return where `--quota` says that the quota file is; empty without that flag."""
    if not said:
        return ""
    place = as_url(said)
    return f"{unquote(place.removeprefix('file://'))} (serve --quota)"


def _quota_place(settings: ServeSettings, store: ObjectStore) -> tuple[ObjectStore, str]:
    said = settings.quota_url
    if not said:
        return store, layout.QUOTA
    parts = urlsplit(as_url(said))
    folder, _, name = parts.path.rpartition("/")
    if not name:
        raise SpecError(f"--quota: {said!r} names no file", hint=_QUOTA_HINT)
    if parts.scheme == "file" and Path(unquote(parts.path)).is_dir():
        raise SpecError(f"--quota: {said!r} is a folder", hint=_QUOTA_HINT)
    try:
        return open_store(parts._replace(path=folder or "/").geturl()), unquote(name)
    except SpecError as error:
        raise SpecError(f"--quota: {said!r}: {error.message}", hint=_QUOTA_HINT) from None


def _pool_opener(
    settings: ServeSettings, store: ObjectStore, journal: Journal, *, bucket: str
) -> Callable[[Pool], OpenPool]:
    wheel = WheelUpload(store)

    def open_pool(pool: Pool) -> OpenPool:
        is_shared = pool.provider == "local" and settings.pace != LOCAL
        if is_shared and not has_own_credentials(os.environ):
            journal.note(
                f"pool {pool.name}: its jobs run on this host with the bastion's own credentials,"
                " so they can do whatever the bastion can; give its agents their own credentials"
                " in variables that begin with AGENT_, such as"
                " AGENT_GOOGLE_APPLICATION_CREDENTIALS, AGENT_AWS_PROFILE or AGENT_AZURE_CLIENT_ID"
            )
        provider = open_provider(
            pool,
            root_url=settings.root_url,
            bucket=bucket,
            machines_dir=settings.machines_dir,
        )
        lane = ThreadLane(f"pool-{pool.name}", workers=PROVIDER_WORKERS)
        if pool.provider not in INSTALLS:
            return OpenPool(pool=pool, provider=provider, lane=lane)
        return OpenPool(pool=pool, provider=provider, lane=lane, before_create=wheel.ensure)

    return open_pool


def _candidate(settings: ServeSettings) -> Candidate:
    return Candidate(
        holder=settings.name,
        host=socket.gethostname(),
        boot=boot(),
        pid=os.getpid(),
        pid_started=float(started(os.getpid())),
        ttl_s=settings.pace.ttl_s,
        build=build_digest(),
    )
