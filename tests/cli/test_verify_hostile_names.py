"""kcli verify and names with terminal escapes: it escapes every name, in its commands as well."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cli.run import kcli

HOSTILE = [
    "\x1b[2K\x1b[31mforged",
    "line\n 0 errors: sound",
    "c1\u009b31m",
    "bidi\u202e\u2066gpj",
    "back\rover",
    "it's \\ a \u2028 line",
]
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_escaped(tmp_path: Path, name: str) -> None:
    log = tmp_path / name / "orders-0" / f"{0:020}.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(bytes(100))
    ended = kcli("verify", tmp_path)
    assert ended.status == 1
    assert not UNSAFE.search(ended.stdout + ended.stderr)
    lines = ended.stdout.splitlines()
    assert [line for line in lines if not line.startswith((" ", "error", "1 error", "2 notes"))] == []
    command = next(line for line in lines if "Next: " in line).partition("Next: ")[2]
    words = command.replace("kcli recover", "printf '%s\\n' recover")
    shown = subprocess.run(["bash", "-c", words], capture_output=True, check=True).stdout
    assert str(log.parent) in shown.decode()


def test_a_byte_that_is_no_text_is_escaped_where_a_terminal_may_take_it(tmp_path: Path) -> None:
    path = tmp_path / "odd\udc9b31m\udce9"
    path.mkdir()
    ended = kcli("verify", path)
    assert ended.status == 2
    assert "\udc9b" not in ended.stdout + ended.stderr


def test_a_plain_name_is_quoted_as_before() -> None:
    from kcli.inspector.verify import next_steps

    assert next_steps.quoted("a b") == shlex.quote("a b")
    assert next_steps.quoted("a\x1bb") == "$'a\\x1bb'"
