"""The pages of the project link to files and functions that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.mend_links import LINK, ROOT, is_true, links, mended, pages, target_of

PAGES = [page.relative_to(ROOT).as_posix() for page in pages()]


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_what_they_name(page: str) -> None:
    broken = [link[0] for link in links(ROOT / page) if not is_true(ROOT / page, link)]
    assert broken == [], "run: python docs/mend_links.py"


@pytest.mark.parametrize("page", PAGES)
def test_anchors_are_headings(page: str) -> None:
    text = (ROOT / page).read_text()
    within = re.findall(r"\]\(#([^)]+)\)", text)
    assert [each for each in within if each not in headings(ROOT / page)] == []


def test_every_room_is_on_the_map() -> None:
    targets = {target_of(ROOT / "ARCHITECTURE.md", link) for link in links(ROOT / "ARCHITECTURE.md")}
    assert {path.parent for path in ROOT.glob("kcli/*/__init__.py")} <= targets


def test_a_link_follows_a_function_that_has_moved() -> None:
    text = "[`parse_batch`](old.py), [`no_such_function`](old.py), [here](../old/record_batch.py#top)"
    found = [mended(ROOT / "docs/page.md", link) for link in LINK.finditer(text)]
    assert found == [
        "[`parse_batch`](../formats/record_batch.py)",
        None,
        "[here](../formats/record_batch.py#top)",
    ]
