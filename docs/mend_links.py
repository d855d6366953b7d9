"""Follow functions that have moved: rewrite links of the kind [`name`](path) whose file defines no such name any more.

`python docs/mend_links.py` looks through the pages of the project. Where exactly one file defines the name, the link
leads there; where none or several do, it is printed with them, and stays. Exits with 1 if a broken link is left.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)]*)?\)")
SOURCES = ("formats/**/*.py", "formats/**/*.pyi", "kcli/**/*.py", "pyspark_kafka_log/*.py", "tests/**/*.py")


def pages() -> list[Path]:
    """Every page of the project with links."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def target_of(page: Path, link: re.Match[str]) -> Path:
    """The file that a link leads to."""
    return Path(os.path.normpath(page.parent / link["target"]))


def name_of(link: re.Match[str]) -> str | None:
    """The name that a link's file must define, None where the link only leads to the file."""
    text = link["text"]
    return text.strip("`") if text.startswith("`") and not link["target"].endswith(".md") else None


def defines(path: Path, name: str) -> bool:
    """Does a file define a function, class or constant of this name?"""
    pattern = rf"^\s*(?:(?:async )?def|class) {re.escape(name)}\b|^{re.escape(name)}\b.* ="
    return re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE) is not None


def is_true(page: Path, link: re.Match[str]) -> bool:
    """Does a link lead to a file that is there, and that defines the name?"""
    path, name = target_of(page, link), name_of(link)
    return path.exists() and (name is None or not path.is_file() or defines(path, name))


def links(page: Path) -> Iterator[re.Match[str]]:
    """The links of a page to files of the project."""
    for link in LINK.finditer(page.read_text(encoding="utf-8")):
        if not link["target"].startswith("http"):
            yield link


def mended(page: Path, link: re.Match[str]) -> str | None:
    """A broken link as it should be, None where that is not certain."""
    old, name = target_of(page, link), name_of(link)
    places = [path for source in SOURCES for path in sorted(ROOT.glob(source))]
    found = [path for path in places if (defines(path, name) if name else path.name == old.name)]
    for likely in (
        found,
        [path for path in found if path.name == old.name],  # the file has moved
        [path for path in found if path.is_relative_to(old.with_suffix(""))],  # the module has become a package
    ):
        if len(likely) == 1:
            return f"[{link['text']}]({os.path.relpath(likely[0], page.parent)}{link['anchor'] or ''})"
    shown = ", ".join(str(each.relative_to(ROOT)) for each in found) or "nowhere"
    print(f"{page.relative_to(ROOT)}: {link[0]}: {shown}")
    return None


def main() -> int:
    """Mend the links of all pages."""
    left = 0
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for link in [each for each in links(page) if not is_true(page, each)]:
            new = mended(page, link)
            left += new is None
            text = text.replace(link[0], new or link[0])
        page.write_text(text, encoding="utf-8")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
