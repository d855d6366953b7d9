"""The script that finds rings of imports finds those of every kind of import."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci/rings.py"

FILES = {
    "__init__": "",
    "top": "from house import lazy\n",
    "lazy": "def later():\n    import house.typed\n",
    "typed": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.near import Name\n",
    "near": "from . import top\n\nclass Name: ...\n",
    "left": "import house.right\nimport house.top\n",
    "right": "from house.left import anything\n",
    "alone": "from house import alone, left\n",
}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rings", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["rings"] = module
    spec.loader.exec_module(module)
    return module


def test_every_kind_of_import_counts(script: ModuleType, tmp_path: Path) -> None:
    house = tmp_path / "house"
    house.mkdir()
    for name, text in FILES.items():
        (house / f"{name}.py").write_text(text)
    found = script.rings(script.graph_of(tmp_path, ("house",)))
    assert found == [
        ["house.lazy", "house.near", "house.top", "house.typed"],
        ["house.left", "house.right"],
    ]


def test_a_long_chain_is_no_ring(script: ModuleType) -> None:
    chain = {f"m{i}": frozenset({f"m{i + 1}"}) for i in range(5_000)} | {"m5000": frozenset[str]()}
    assert script.rings(chain) == []
    assert [len(ring) for ring in script.rings(chain | {"m5000": frozenset({"m0"})})] == [5_001]
