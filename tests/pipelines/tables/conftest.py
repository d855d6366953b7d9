"""A place for a table of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipelines.tables.places import Place
from tests.pipelines.tables.rest_catalog import rest_catalog


@pytest.fixture(params=["delta", "directory", "sql", "rest"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Where no table is yet."""
    out = tmp_path / "out"
    if request.param == "rest":
        with rest_catalog(tmp_path) as (url, _):
            yield Place("rest", out, url)
    else:
        yield Place(request.param, out, f"sqlite:///{tmp_path}/catalog.db" if request.param == "sql" else None)


@pytest.fixture(params=["delta", "directory"])
def plain_place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """The same, of the kinds that need no catalog."""
    return Place(request.param, tmp_path / "out")
