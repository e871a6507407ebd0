"""The files that admins write, as they are in force."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from bastion.clock import Clock
from bastion.errors import NotFoundError, OversizeError, SpecError, StoreError, StoreRefusedError
from bastion.machine import Pool
from bastion.monitor import IdleRule, Options
from bastion.records.coding.limits import ADMIN_FILE_BYTES
from bastion.records.keys import layout
from bastion.records.root import Root
from bastion.records.settings.slow_pattern import refuse_slow_patterns
from bastion.service.config.inventory import inventories_of, whole_config
from bastion.service.config.pool_config import Config, parse_config
from bastion.service.intake.requests import Rules
from bastion.store import ObjectStore, Version
from quota import Quota, parse

COST_SHARE = 10.0
"""
A read that took t seconds is repeated after this many times t: a turn waits for it, and the quota
file may be in a bucket that hangs.
"""
LONGEST_S = 120.0
"""But after at most this long: an admin waits for an edit to take effect."""


class _Object:
    """One object in the bucket, read again only when it changed."""

    def __init__(self, store: ObjectStore, key: str, place: str = "") -> None:
        self._store = store
        self._key = key
        self._place = place or key
        self._version: Version | None = None
        self.data = b""

    def refresh(self) -> bool:
        """
        Read it; return True if it has changed.

        Raises:
            NotFoundError: There is none.
            OversizeError: It is too large.
            StoreError: Out of reach.
        """
        try:
            found = self._store.read(self._key, unless=self._version, limit_bytes=ADMIN_FILE_BYTES)
        except OversizeError:
            self._version = None
            raise
        except NotFoundError:
            self._version = None
            raise NotFoundError(f"there is none at {self._place}") from None
        if found is None:
            return False
        self._version, self.data = found.version, found.data
        return True

    @property
    def text(self) -> str:
        """
        Its contents.

        Raises:
            SpecError: It is not UTF-8.
        """
        return decoded(self._place, self.data)


class AdminFile:
    """
    A file that admins write: the newest good contents, and what is wrong with a newer version.

    A bad file never replaces a good one. The file need not exist.

    Args:
        parse: Raises an error for a bad text.
        judge: The same for what is true only here and now. It never affects what is already in
            force.
        place: Where it is, in words, if not in the bastion's bucket.
        beside: Returns the names of the inventories that a text needs.
        whole: Returns a text with those files in it; a function reads them by name.
    """

    def __init__(
        self,
        store: ObjectStore,
        key: str,
        parse: Callable[[str], object],
        judge: Callable[[str], object] = lambda _: None,
        *,
        place: str = "",
        beside: Callable[[str], Sequence[str]] = lambda _: (),
        whole: Callable[[str, Callable[[str], str]], str] = lambda text, _: text,
    ) -> None:
        self._store = store
        self._place = place or key
        self._parse = parse
        self._judge = judge
        self._beside_of = beside
        self._whole = whole
        self._main = _Object(store, key, place)
        self._beside: dict[str, _Object] = {}
        self._is_unread = False
        """Whether something changed that was not judged yet."""
        self.problem = ""
        """Why a newer file is not in force."""
        self.trouble = ""
        """Why it is unknown whether there is a newer file."""
        self.text = ""
        self.last_good = ""
        """What is in force; until then, what was in force for the version that led before."""

    def adopt(self, text: str) -> bool:
        """Put `text` in force again unless this version refuses it; return whether it is."""
        self.last_good = text
        self.problem = _problem_of(self._parse, text)
        if not self.problem:
            self.text = text
        return not self.problem

    def refresh(self) -> bool:
        """
        Read the file and those that it needs; return True if good new contents are in force.

        Raises:
            StoreError: It was never read, and the store is out of reach.
        """
        self.trouble = ""
        try:
            self._read()
        except (NotFoundError, OversizeError) as error:
            self.problem = str(error)
            return False
        except StoreError as error:
            if self.text or self.problem:
                good = ", the last good one is in force" if self.text else ""
                self.trouble = f"cannot be checked now{good}: {error}"
            elif isinstance(error, StoreRefusedError):
                self.problem = f"{self._place}: cannot be read: {error}"
            else:  # nothing is known of it yet, and an outage is not news
                told = f"{self._place}: cannot be checked: {error.message}"
                raise StoreError(
                    told, hint=error.hint, retry_after_s=error.retry_after_s
                ) from error
            return False
        if not self._is_unread:
            return False
        self._is_unread = False
        try:
            text = self._whole(self._main.text, lambda name: self._beside[name].text)
        except SpecError as error:
            self.problem = str(error)
            return False
        self.problem = _problem_of(self._parse, text) or _problem_of(self._judge, text)
        if self.problem:
            return False
        is_new = text != self.text
        self.text = self.last_good = text
        return is_new

    def _read(self) -> None:
        self._is_unread |= self._main.refresh()
        try:
            needed = self._beside_of(self._main.text)
        except SpecError:
            needed = ()
        self._beside = {name: self._beside.get(name) or self._object(name) for name in needed}
        for each in self._beside.values():
            try:
                self._is_unread |= each.refresh()
            except NotFoundError:
                self._is_unread = True  # its replacement is judged, even if it is the same
                raise

    def _object(self, name: str) -> _Object:
        return _Object(self._store, layout.inventory(name))


def decoded(key: str, data: bytes) -> str:
    """
    Return the text of the file at `key`.

    Raises:
        SpecError: It is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(f"{key}: is not UTF-8: {error}") from error


def read_config(store: ObjectStore) -> Config:
    """
    Return the configuration in the bucket.

    Raises:
        StoreError: Out of reach, or there is none.
        SpecError: It is not valid.
    """

    def read(key: str) -> str:
        found = store.read(key, limit_bytes=ADMIN_FILE_BYTES)
        assert found is not None, "it is read whether or not it changed"
        return decoded(key, found.data)

    whole = whole_config(read(layout.CONFIG), lambda name: read(layout.inventory(name)))
    return parse_config(whole)


def _problem_of(check: Callable[[str], object], text: str) -> str:
    try:
        check(text)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, it is not in force
        return str(error) or repr(error)
    return ""


def _judge_quota(text: str) -> None:
    refuse_slow_patterns(parse(text))


class AdminFiles:
    """
    The quota file and `config/bastion.toml`: the last good contents of each, and their problems.

    The last good texts are also in root, so a bastion that starts while a file is broken continues
    with what was in force before.

    Args:
        quota_place: Where the quota file is, in words, if not in `store`.
        shared_hosts: Finds hosts that pools reach by several names; returns full problem texts.
    """

    def __init__(
        self,
        store: ObjectStore,
        quota_store: ObjectStore,
        clock: Clock,
        *,
        quota_key: str = layout.QUOTA,
        quota_place: str = "",
        every_s: float,
        shared_hosts: Callable[[Mapping[str, Pool]], Sequence[str]] = lambda _: (),
    ) -> None:
        def judge(text: str) -> None:
            if found := shared_hosts(parse_config(text).pools):
                raise SpecError(*found)

        self._quota_file = AdminFile(quota_store, quota_key, parse, _judge_quota, place=quota_place)
        self._config_file = AdminFile(
            *(store, layout.CONFIG, parse_config, judge), beside=inventories_of, whole=whole_config
        )
        self._clock = clock
        self._every_s = every_s
        self._next_at = 0.0
        self._told: tuple[str, ...] = ()
        """The problems found at the last check."""
        self.quota: Quota | None = None
        self.config = Config(pools={})

    def adopt(self, root: Root) -> None:
        """Continue with what was in force when `root` was committed."""
        if root.quota_text and self._quota_file.adopt(root.quota_text):
            self.quota = parse(root.quota_text)
        if root.config_text and self._config_file.adopt(root.config_text):
            self.config = parse_config(root.config_text)

    def refresh(self) -> bool:
        """
        Read both files if it is time; return True if anything in force changed.

        A file that cannot be read has a problem like any other: what was in force stays in force.

        Raises:
            StoreError: One of them was never read, and the store is out of reach.
        """
        now = self._clock.monotonic()
        if now < self._next_at:
            return False
        is_new = False
        if self._quota_file.refresh():
            self.quota = parse(self._quota_file.text)
            is_new = True
        if self._config_file.refresh():
            self.config = parse_config(self._config_file.text)
            is_new = True
        ended_at = self._clock.monotonic()
        cost_s = min(COST_SHARE * (ended_at - now), LONGEST_S)
        self._next_at = ended_at + max(self._every_s, cost_s)
        told, self._told = self._told, self.problems
        return is_new or told != self._told

    @property
    def problems(self) -> tuple[str, ...]:
        """Why a newer file is not in force."""
        return tuple(each for each in (self._quota_file.problem, self._config_file.problem) if each)

    @property
    def troubles(self) -> Mapping[str, str]:
        """
        By key, why a file could not be read; empty if it could.

        What is in force stays unaffected.
        """
        return {layout.QUOTA: self._quota_file.trouble, layout.CONFIG: self._config_file.trouble}

    @property
    def quota_problem(self) -> str:
        """Why the newest quota file is not in force, or empty."""
        return self._quota_file.problem

    @property
    def config_problem(self) -> str:
        """Why the newest configuration is not in force, or empty."""
        return self._config_file.problem

    @property
    def quota_text(self) -> str:
        """The last good quota file: in force, unless it is another version's."""
        return self._quota_file.last_good

    @property
    def config_text(self) -> str:
        """The last good configuration: in force, unless it is another version's."""
        return self._config_file.last_good

    @property
    def rules(self) -> Rules:
        """The rules by which requests are judged."""
        idle = {
            pool.name: IdleRule(warning_s=pool.idle_warning_s, stops=pool.stops_idle)
            for pool in self.config.pools.values()
            if pool.idle_warning_s
        }
        options = Options(secrets=self.config.secrets, idle_rules=idle)
        if self.quota is not None:
            scheduler = self.quota.scheduler
            options = replace(options, grace_s=scheduler.grace_s, max_grace_s=scheduler.max_grace_s)
        return Rules(
            quota=self.quota,
            quota_problem=self._quota_file.problem,
            pools=self.config.pools,
            options=options,
            notifications=self.config.notifications,
        )
