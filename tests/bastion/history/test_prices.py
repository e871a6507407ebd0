"""Prices: the list's dates, the part of a slice, and what admins set instead."""

from __future__ import annotations

import pytest

from bastion import catalog
from bastion.errors import SpecError
from bastion.history.attempt_row import attempt_row
from bastion.history.prices import list_price, own_price
from bastion.machine import Terms
from bastion.records.root import Event
from bastion.service.config.pool_config import parse_config
from tests.bastion.history.log import ended

NOW = 1_790_000_000.0
"""In September 2026."""
BEFORE = 1_700_000_000.0
"""In November 2023, before the first day of any price."""
POOL = """
[pools.gpu]
provider = "fake"
instance_type = "p5.48xlarge"
max_machines = 2
terms = "spot"
"""


def test_a_list_price_counts_from_its_day_on() -> None:
    """A price has a first day, terms and a type; anything else has none."""
    assert list_price("p5.48xlarge", "on_demand", NOW) == 55.04
    assert list_price("p5.48xlarge", "on_demand", BEFORE) is None
    assert list_price("p5.48xlarge", "spot", NOW) is None
    assert list_price("a3-highgpu-8g", "on_demand", NOW) is None
    assert list_price("no-such-type", "on_demand", NOW) is None


def test_every_instance_type_of_amazon_has_a_price_but_one() -> None:
    """Known types can be priced, except those without an on-demand price."""
    sold = [row[0] for row in catalog._EC2]
    unpriced = [name for name in sold if list_price(name, "on_demand", NOW) is None]
    assert unpriced == ["p5e.48xlarge"], "which is sold by capacity blocks alone"


@pytest.mark.parametrize(
    ("name", "price"),
    [
        ("v5p-128", 4 * 4.20),
        ("tpu-v6e-8", 8 * 2.70),
        ("v6e-16", 4 * 2.70),
        ("v5litepod-4", 4 * 1.20),
        ("v4-32", 4 * 3.22),
    ],
)
def test_a_machine_of_a_slice_costs_its_chips(name: str, price: float) -> None:
    """A host of a slice costs its number of chips, by any name of the type."""
    assert list_price(name, "on_demand", NOW) == pytest.approx(price)


def test_an_admins_price_of_a_slice_is_of_all_its_hosts() -> None:
    """A configured price covers the whole type, by its terms."""
    prices: dict[str, dict[Terms, float]] = {
        "v6e-16": {"spot": 20.0},
        "p5.48xlarge": {"on_demand": 50.0},
    }
    assert own_price(prices, "v6e-16", "spot") == 5.0
    assert own_price(prices, "v6e-16", "on_demand") == 0.0
    assert own_price(prices, "p5.48xlarge", "on_demand") == 50.0


def test_a_pools_own_price_outranks_the_table() -> None:
    """A pool has its own price, else that of its instance type and terms, else none."""
    table = '[prices."p5.48xlarge"]\nspot = 18.5\n'
    assert parse_config(POOL + table).pools["gpu"].price_per_hour == 18.5
    assert parse_config(f"{POOL}price = 7\n{table}").pools["gpu"].price_per_hour == 7.0
    assert parse_config(POOL).pools["gpu"].price_per_hour == 0.0


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('[prices."p5.48xlrge"]\nspot = 1', "prices.p5.48xlrge: .* did you mean p5.48xlarge"),
        ('[prices."p5.48xlarge"]\nspott = 1', "spott"),
        ('[prices."p5.48xlarge"]\nspot = -1', "greater than or equal to 0"),
        ('[prices."p5.48xlarge"]\nspot = inf', "finite"),
    ],
)
def test_a_wrong_price_is_named(table: str, words: str) -> None:
    """An unknown type, unknown terms and an invalid number are problems of the file."""
    with pytest.raises(SpecError, match=words):
        parse_config(f"{POOL}\n{table}\n")


def test_a_row_has_the_price_of_its_pool_else_that_of_the_list() -> None:
    """The cost of a row is its machine time at the first known price."""
    listed = ended(NOW, "j", instance_type="p5.48xlarge", terms="on_demand", machine_s=3600.0)
    row = attempt_row(Event(n=1, at=NOW, job="j", project="p", what="succeeded", record=listed))
    assert row is not None
    assert (row.price_per_hour, row.cost) == (55.04, 55.04)
    own = ended(NOW, "j", instance_type="p5.48xlarge", price_per_hour=10.0, machine_s=1800.0)
    row = attempt_row(Event(n=1, at=NOW, job="j", project="p", what="succeeded", record=own))
    assert row is not None
    assert (row.price_per_hour, row.cost) == (10.0, 5.0)
