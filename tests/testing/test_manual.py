"""The example of kcli-pytest(7) passes, and the seed that the page shows can be parsed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from kcli.testing.seed import parse
from tests.testing.test_plugin import PLUGIN

pytest_plugins = ["pytester"]

PAGE = Path(__file__).parents[2] / "man" / "kcli-pytest.7"
BLOCKS = re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_example_passes(pytester: pytest.Pytester) -> None:
    (example,) = [each for each in BLOCKS if each.startswith("# test_orders.py")]
    pytester.path.joinpath("test_orders.py").write_text(example)
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=2)


def test_the_seed_is_one() -> None:
    (seed,) = [each for each in BLOCKS if each.startswith("topics:")]
    topics = parse(yaml.safe_load(seed))
    assert [(each.name, each.partitions, len(each.records)) for each in topics] == [
        ("orders", 3, 2),
        ("audit", 6, 0),
        ("events", 1, 2),
        ("empty", 1, 0),
    ]
