"""ARCHITECTURE.md and CONTRIBUTING.md name files and functions that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>[^)]+)\)")
DEFINED = r"^\s*(?:(?:async )?def|class) {name}\b|^{name}\b.* ="


def links(page: str) -> list[tuple[str, str]]:
    """Text and target of each link to a file of the project."""
    text = (ROOT / page).read_text()
    found = [(match["text"], match["target"]) for match in LINK.finditer(text)]
    return [(text, target) for text, target in found if not target.startswith("http")]


@pytest.mark.parametrize(
    ("text", "target"),
    [link for page in ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md") for link in links(page)],
)
def test_a_link_leads_to_what_it_names(text: str, target: str) -> None:
    path = ROOT / target
    assert path.exists(), f"{target} is not there"
    if text.startswith("`") and path.is_file():
        name = text.strip("`")
        defined = re.compile(DEFINED.format(name=re.escape(name)), re.MULTILINE)
        assert defined.search(path.read_text()), f"{target} defines no {name}"


def test_every_room_is_on_the_map() -> None:
    targets = {target for _, target in links("ARCHITECTURE.md")}
    rooms = {f"kcli/{path.parent.name}" for path in ROOT.glob("kcli/*/__init__.py")}
    assert rooms <= targets
