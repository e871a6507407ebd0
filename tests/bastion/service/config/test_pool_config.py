"""`config/bastion.toml`: the keys of pools, and every problem in one report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bastion.errors import SpecError
from bastion.provider.open import PROVIDERS
from bastion.records.settings.keep import Keep
from bastion.secret_rules import SecretRule, SecretRules
from bastion.service.config.inventory import whole_config
from bastion.service.config.pool_config import _PoolTable, parse_config
from quota import Amounts


def problems(text: str) -> tuple[str, ...]:
    """Return every problem of `text`, without its line."""
    with pytest.raises(SpecError) as caught:
        parse_config(text)
    return tuple(
        re.sub(r"^(config/bastion.toml: )line \d+: ", r"\1", each) for each in caught.value.problems
    )


def test_a_problem_stands_on_its_line() -> None:
    """Problems are in the order of the file; missing keys have the line of their table."""
    text = (
        "# pools\n[pools.x]\nprovider = 'fake'\nresources = { a = 1.5 }\n"
        "[pools.'a.b']\nprovider = 'fake'\nresources = { a = 1 }\nboot = [3]\n"
        "[pools.c]\nprovider = 'fake'\nresources = { a = 0 }\nmax_machines = 1\n"
        "[secrets.A]\nprojects = []\n[keep]\nlogs = '1h'\n"
    )
    with pytest.raises(SpecError) as caught:
        parse_config(text)
    assert caught.value.problems == (
        "config/bastion.toml: line 4: pools.x.resources.a: 1.5 is not a number of units; allowed:"
        " 1, 2, 3, ...",
        "config/bastion.toml: line 8: pools.a.b.boot: duration: [3] is not a duration; allowed: 0"
        " or more seconds",
        "config/bastion.toml: line 11: pools.c.resources.a: 0 is not above zero; leave the type"
        " out to ask for none",
        "config/bastion.toml: line 13: secrets.A.source: missing",
        "config/bastion.toml: line 16: keep.logs: 1h is too short; must be at least 1d",
    )


@pytest.mark.parametrize("text", ["", "\n", "# later"])
def test_a_file_without_a_table_is_refused(text: str) -> None:
    """An emptied file would remove every pool; a file without pools has another table."""
    with pytest.raises(SpecError, match="holds no table; must hold at least one pool"):
        parse_config(text)
    assert parse_config("[secrets]").pools == {}


def test_a_pool_as_it_is_written() -> None:
    """Every key of a pool table has its meaning."""
    config = parse_config(
        """
        [pools.gpu]
        provider = "fake"
        instance_type = "a3-highgpu-8g"
        min_machines = 1
        max_machines = 4
        tier = 1
        zones = ["a", "b"]
        cluster = "primary"
        shard = "rl"
        labels = { owner = "x" }
        containers = true
        idle_timeout = "10m"
        boot = 90
        options = { image = "i" }

        [pools.here]
        provider = "local"
        resources = { cpu = 4, memory = "8GiB" }
        count = 1
        keep_work = "2d"
        run_as = "jobs"
        """
    )
    gpu, here = config.pools["gpu"], config.pools["here"]
    assert (gpu.min_machines, gpu.max_machines, gpu.tier, gpu.zones) == (1, 4, 1, ("a", "b"))
    assert gpu.resources["h100"] == 8
    assert gpu.labels == {"cluster": "primary", "shard": "rl", "owner": "x", "containers": "true"}
    assert (gpu.idle_timeout_s, gpu.boot_s, gpu.options) == (600.0, 90.0, {"image": "i"})
    assert (here.min_machines, here.max_machines) == (1, 1)
    assert (gpu.keep_work_s, here.keep_work_s) == (7 * 86400.0, 2 * 86400.0)
    assert (gpu.run_as, here.run_as) == ("", "jobs")
    assert here.resources == Amounts({"cpu": 4, "memory": 8 * 2**30})


def test_a_slice_is_counted_in_hosts() -> None:
    """A multi-host instance type makes slices of that many machines."""
    pool = parse_config(
        '[pools.tpu]\nprovider = "fake"\ninstance_type = "tpu-v4-32"\nmax_machines = 8\n'
    ).pools["tpu"]
    assert pool.hosts == 4


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("not toml", "config/bastion.toml: not TOML: "),
        ("[pool.x]", "config/bastion.toml: pool: "),
        ("[pools.x]\nresources = { a = 1 }\ncount = 1", "config/bastion.toml: pools.x.provider: "),
        (
            '[pools.x]\nprovider = "fake"\ncount = 1',
            "config/bastion.toml: pools.x.resources: give either resources or instance_type",
        ),
        (
            '[pools.x]\nprovider = "fake"\nresources = { a = 1 }\ninstance_type = "b"\ncount = 1',
            "config/bastion.toml: pools.x.resources: give either resources or instance_type",
        ),
        (
            '[pools.x]\nprovider = "fake"\nresources = { a = 1 }',
            "config/bastion.toml: pools.x.max_machines: missing; set how many can exist (or count,"
            " to keep that many)",
        ),
        (
            '[pools.x]\nprovider = "fake"\nresources = { a = 1 }\ncount = 1\nmax_machines = 2',
            "config/bastion.toml: pools.x.count: stands for min_machines and max_machines; give"
            " it or them",
        ),
        (
            '[pools.x]\nprovider = "fake"\nresources = { a = 1 }\n'
            "min_machines = 3\nmax_machines = 2",
            "config/bastion.toml: pools.x.min_machines: 3 is more than max_machines, which is 2",
        ),
        (
            '[pools."a b"]\nprovider = "fake"\nresources = { a = 1 }\ncount = 1',
            "config/bastion.toml: pools.a b.name: 'a b' is not a name; ",
        ),
        (
            '[pools.x]\nprovider = "fake"\ninstance_type = "nonsense"\ncount = 1',
            "config/bastion.toml: pools.x.instance_type: 'nonsense' is not an instance type",
        ),
        (
            '[pools.x]\nprovider = "fake"\nresources = { a = 0 }\ncount = 1',
            "config/bastion.toml: pools.x.resources.a: 0 is not above zero",
        ),
        (
            '[pools.x]\nprovider = "fake"\nresources = { a = 1 }\ncount = 1\nidle_timeout = "soon"',
            "config/bastion.toml: pools.x.idle_timeout: ",
        ),
        (
            '[pools.x]\nprovider = "fake"\nresources = { a = 1 }\ncount = 1\nidle_warning = "5s"',
            "config/bastion.toml: pools.x.idle_warning: 5 s is less than 60 s, six samples; leave"
            " it out",
        ),
        (
            '[pools.x]\nprovider = "fake"\nresources = { a = 1 }\ncount = 1\non_idle = "stop"',
            "config/bastion.toml: pools.x.on_idle: needs idle_warning, the time after which",
        ),
        (
            '[pools.x]\nprovider = "fake"\nresources = { a = 1 }\ncount = 1\non_idle = "fail"',
            "config/bastion.toml: pools.x.on_idle: ",
        ),
        (
            '[pools.x]\nprovider = "fake"\nresources = { a = 1 }\ncount = 1\nzones = []',
            "config/bastion.toml: pools.x.zones: none given; leave it out where there is only one",
        ),
        (
            '[pools.x]\nprovider = "fake"\nresources = { a = 1 }\ncount = 1\ncolour = 1',
            "config/bastion.toml: pools.x.colour: ",
        ),
    ],
)
def test_a_problem_names_file_pool_and_key(text: str, problem: str) -> None:
    """Every problem is reported with file, path and what is allowed."""
    (found,) = problems(text)
    assert found.startswith(problem)


def test_every_pools_problems_are_told() -> None:
    """Two bad pools are two problems."""
    bad = 'provider = "fake"\nresources = { a = 1 }\n'
    assert len(problems(f"[pools.x]\n{bad}[pools.y]\n{bad}")) == 2


def test_the_reference_page_shows_a_configuration() -> None:
    """The example of `docs/reference/config-file.md` parses, and its table names every key."""
    page = (Path(__file__).parents[4] / "docs/reference/config-file.md").read_text()
    pools = parse_config(page.split("```toml\n")[1].split("```")[0]).pools
    assert (pools["local"].min_machines, pools["local"].max_machines) == (2, 2)
    assert (pools["extra"].idle_timeout_s, pools["extra"].resources["h100"]) == (1800.0, 8)
    assert all(f"`{key}`" in page for key in _PoolTable.model_fields)


@pytest.mark.parametrize(
    ("page", "pools"),
    [
        ("run-on-aws.md", {"gpu", "spot"}),
        ("run-on-your-own-hosts.md", {"rack", "checked", "boxes", "rl", "eval"}),
    ],
)
def test_the_guides_show_configurations(page: str, pools: set[str]) -> None:
    """Every pool that a guide shows is accepted by its provider."""
    text = (Path(__file__).parents[4] / "docs/guides" / page).read_text()
    shown = [block.partition("```")[0] for block in text.split("```toml\n")[1:]]
    inventory = text.partition("```text\n# host")[2].partition("```")[0]
    whole = whole_config("".join(shown), lambda _: f"# host{inventory}")
    found = parse_config(whole)
    assert (set(found.pools), found.spare_hosts) == (pools, ())


def test_a_provider_that_is_none_is_refused_with_the_file() -> None:
    """The error is reported with the file and the known providers."""
    text = '[pools.a]\nprovider = "locl"\ncount = 1\nresources = { cpu = 1 }'
    assert problems(text) == (
        "config/bastion.toml: pools.a.provider: 'locl' is unknown;"
        f" must be one of {', '.join(PROVIDERS)}; did you mean local?",
    )


def test_an_unknown_key_is_an_unknown_field() -> None:
    """A misspelt key is reported in our words, next to the missing one."""
    assert problems('[pools.x]\nprovder = "local"\ncount = 1\nresources = { cpu = 1 }') == (
        "config/bastion.toml: pools.x.provider: missing",
        "config/bastion.toml: pools.x.provder: unknown field, nearest is provider",
    )


@pytest.mark.parametrize(
    ("misspelt", "told"),
    [
        ("[pools.x]\ncout = 1", "pools.x.cout: unknown field, nearest is count"),
        ("[pools.x]\ncount = 1\ncout = 2", "pools.x.cout: unknown field, nearest is count"),
        ("[pools.x]\ncount = 1\nqqq = 2", "pools.x.qqq: unknown field"),
        ("[keep]\nlgs = '90d'\n[pools.x]\ncount = 1", "keep.lgs: unknown field, nearest is logs"),
        ("[pool.y]\n[pools.x]\ncount = 1", "pool: unknown field, nearest is pools"),
    ],
)
def test_a_misspelt_key_is_told_with_the_nearest_alone(misspelt: str, told: str) -> None:
    """It is treated as the intended key, so nothing is reported as missing for it."""
    text = f'{misspelt}\nprovider = "local"\nresources = {{ cpu = 1 }}'
    assert problems(text) == (f"config/bastion.toml: {told}",)


def test_secrets_as_they_are_written() -> None:
    """Names and sources that jobs may request, and the permitted projects, are read."""
    config = parse_config(
        """
        [secrets.HF_TOKEN]
        source = "file:shared/hf"
        projects = ["*"]
        [[secret_sources]]
        source = "aws:vision/*"
        projects = ["vision"]
        """
    )
    assert config.secrets == SecretRules(
        named={"HF_TOKEN": SecretRule(source="file:shared/hf", projects=("*",))},
        sources=(SecretRule(source="aws:vision/*", projects=("vision",)),),
    )


def test_a_wrong_rule_for_secrets_is_told_with_its_path() -> None:
    """Every problem of every table is reported, pools included."""
    assert problems(
        """
        [pools.x]
        provider = "fake"
        [secrets.A]
        source = "etc:passwd"
        projects = []
        """
    )[2:] == (
        "config/bastion.toml: secrets.A.source: 'etc:passwd' is not known; allowed:"
        " env:NAME, file:PATH, relative, gcp:projects/PROJECT/secrets/SECRET or"
        " .../versions/VERSION, aws:NAME or aws:ARN, azure:VAULT/SECRET or"
        " azure:VAULT/SECRET/VERSION",
        "config/bastion.toml: secrets.A.projects: names none; say which may ask for it,"
        ' or ["*"] for every project',
    )
    assert problems("[secrets.A]\nprojects = []\nsorce = 1") == (
        "config/bastion.toml: secrets.A.source: missing",
        "config/bastion.toml: secrets.A.sorce: unknown field, nearest is source",
    )


def test_the_examples_of_the_reference_are_configurations() -> None:
    """The examples on the page are valid."""
    page = Path(__file__).parents[4] / "docs" / "reference" / "config-file.md"
    examples = re.findall(r"```toml\n(.*?)```", page.read_text(), re.S)
    pools, prices, keep, secrets = map(parse_config, examples[:4])
    assert keep.keep == Keep(logs_s=90 * 86400.0, results_s=730 * 86400.0)
    assert not prices.pools
    assert set(pools.pools) == {"local", "extra"}
    assert secrets.secrets.named["HF_TOKEN"].projects == ("vision", "language")
    assert secrets.secrets.sources[0].source == "aws:vision/*"


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ('logs = "1h"', "keep.logs: 1h is too short; must be at least 1d"),
        ('logs = "9d"\nresults = "59d"', "keep.results: 59d is too short; must be at least 60d"),
        (
            'results = "90d"',
            "keep.logs: for ever is longer than keep.results, which is 90d; logs are found by the"
            " final record of their job",
        ),
        ('logs = "99d"\nresults = "90d"', "keep.logs: 99d is longer than keep.results"),
        ('log = "9d"', "keep.log: unknown field"),
        ('logs = "soon"', "keep.logs: "),
    ],
)
def test_a_wrong_age_is_told(lines: str, wrong: str) -> None:
    """An age that is too short, unknown, or would lose logs is named with what is allowed."""
    assert problems(f"[keep]\n{lines}\n")[0].startswith(f"config/bastion.toml: {wrong}")


def test_without_ages_all_is_kept_for_ever() -> None:
    """A file without ages deletes nothing."""
    made = parse_config('[keep]\nlogs = "30d"\n').keep
    assert made == Keep(logs_s=30 * 86400.0)
    assert parse_config("[keep]\n").keep == Keep()


def test_hosts_of_ones_own_are_zones_of_one_machine_each() -> None:
    """A pool of hosts has one machine per host, and a permit that proves them off."""
    text = (
        '[pools.own]\nprovider = "ssh"\nhosts = ["gpu1", "root@gpu2"]\nresources = { h100 = 8 }\n'
    )
    pool = parse_config(text).pools["own"]
    assert (pool.zones, pool.machines_per_zone, pool.max_machines) == (("gpu1", "root@gpu2"), 1, 2)
    assert (pool.min_machines, pool.permit_s) == (0, 600.0)
    assert parse_config(text + "count = 2\n").pools["own"].min_machines == 2
    assert parse_config(text + "max_machines = 1\n").pools["own"].max_machines == 1


@pytest.mark.parametrize(
    "provider",
    ['"slurm"', '"kubernetes"\nimage = "python:3.12"\noptions = { namespace = "ml" }'],
)
def test_machines_of_a_cluster_have_a_permit_too(provider: str) -> None:
    """What a cluster says of a failed node is no proof that nothing runs there."""
    text = f"[pools.hpc]\nprovider = {provider}\nmax_machines = 2\nresources = {{ h100 = 8 }}\n"
    assert parse_config(text).pools["hpc"].permit_s == 600.0
    with pytest.raises(SpecError, match="permit: 60 s is less than 180 s"):
        parse_config(text + 'permit = "1m"\n')


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ("", "hosts: missing; name the hosts of this pool as OpenSSH knows them, or their file in"),
        ('hosts = ["-oProxyCommand=x"]', "hosts: '-oProxyCommand=x' is not a name that OpenSSH"),
        ('hosts = ["a", "a"]', "hosts: 'a' is named twice"),
        ('hosts = ["a", "root@A"]', "hosts: 'root@A' is named twice, as 'a' too"),
        ('hosts = ["a"]\nzones = ["z"]', "zones: each host is a zone; leave it out"),
        ('hosts = ["a"]\ncount = 2', "count: a host holds one machine, and there are 1 hosts"),
        ('hosts = ["a"]\npermit = "1m"', "permit: 60 s is less than 180 s"),
        ('hosts = ["a"]\noptions = { key = "k" }', "options.key: unknown; a pool of provider ssh"),
    ],
)
def test_what_is_wrong_with_hosts_is_told(lines: str, wrong: str) -> None:
    """Names that OpenSSH treats as options, duplicate hosts, and keys without a meaning here."""
    text = f'[pools.own]\nprovider = "ssh"\nresources = {{ h100 = 8 }}\n{lines}\n'
    assert any(
        problem.startswith(f"config/bastion.toml: pools.own.{wrong}") for problem in problems(text)
    )


def test_hosts_are_set_up_and_looked_at() -> None:
    """A pool of hosts has commands and a health check, and leaves a device to its holder."""
    own = 'provider = "ssh"\nhosts = ["a"]\nresources = { h100 = 8 }\nsetup = ["true"]\n'
    pool = parse_config(f'[pools.own]\n{own}health = {{ devices = true, burn = "b" }}').pools["own"]
    assert (pool.setup, pool.watches_devices, pool.burn) == (("true",), True, "b")
    assert pool.respects_foreign
    other = parse_config(f"[pools.own]\n{own}health = {{ foreign = false }}").pools["own"]
    assert not other.respects_foreign
    here = 'provider = "local"\ncount = 1\nresources = { cpu = 1 }\nhealth = { foreign = true }'
    assert problems(f"[pools.a]\n{here}") == (
        "config/bastion.toml: pools.a.health: a local pool does not check its machines; leave it"
        " out",
    )


def test_a_host_is_of_one_pool() -> None:
    """Two pools with the same host are refused, and so are hosts of a provider without hosts."""
    own = 'provider = "ssh"\nhosts = ["gpu1"]\nresources = { h100 = 8 }\n'
    assert problems(f"[pools.a]\n{own}[pools.b]\n{own}") == (
        "config/bastion.toml: pools.b.hosts: 'gpu1' is in pool a too",
    )
    other = own.replace("gpu1", "root@GPU1")
    assert problems(f"[pools.a]\n{own}[pools.b]\n{other}") == (
        "config/bastion.toml: pools.b.hosts: 'root@GPU1' is in pool a too, as 'gpu1'",
    )
    local = 'provider = "local"\nhosts = ["gpu1"]\ncount = 1\nresources = { cpu = 1 }'
    assert problems(f"[pools.a]\n{local}") == (
        "config/bastion.toml: pools.a.hosts: only a pool of provider ssh has hosts",
    )


@pytest.mark.parametrize("guide", ["run-on-gce-gpus", "run-on-gcp-tpus"])
def test_the_pool_of_a_guide_is_one(guide: str) -> None:
    """The configuration in a cloud's guide is valid as written."""
    page = Path(__file__).parents[4] / "docs" / "guides" / f"{guide}.md"
    written = re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    assert written
    for text in written:
        assert parse_config(text).pools
