"""What `kafka-storage` and kcli's `format` print and write: the cases of format.txt.

format.expected has the output of real Kafka; `KCLI_UPDATE=1 pytest -m kafka tests/interop/test_format_kafka.py` writes
it anew, without ids, times, and the order in which directories are formatted. Kafka formats clusters without the
features that kcli's new clusters lack.
"""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from formats.control_record import ControlType
from kcli.metadata_log.snapshot_file import read_snapshot
from tests.interop.test_tools_kafka import commands

SCRIPT = Path(__file__).with_name("format.txt")
EXPECTED = Path(__file__).with_name("format.expected")
DIRECTORIES = "D"


class Printed(NamedTuple):
    """The output of a command: the lines of stdout, its last complaint, and whether it succeeded."""

    stdout: str
    complaint: str
    done: bool


def report(run: Callable[[list[str]], Printed], cwd: Path) -> str:
    """Return what the script's commands print, and the directories after each. run: runs `format` with arguments."""
    parts = []
    for command in commands(SCRIPT):
        first, *rest = command.words
        if first == "file":
            (cwd / rest[0]).write_text(command.text)
        elif first in ("fresh", "remove"):
            shutil.rmtree(cwd / (rest[0] if rest else DIRECTORIES), ignore_errors=True)
        else:
            printed = run(rest)
            lines = sorted(line for line in printed.stdout.splitlines() if not line.startswith("Bootstrap metadata"))
            outcome = "done" if printed.done else f"refused: {printed.complaint}"
            parts += [f"$ {command.line}", *lines, outcome, *files(cwd), ""]
    return "\n".join(parts)


def files(cwd: Path) -> Iterator[str]:
    """Return the files of the directories with their content, one a line."""
    for path in sorted((cwd / DIRECTORIES).rglob("*")):
        if path.is_file():
            yield f"  {path.relative_to(cwd)}  {path.stat().st_mode & 0o777:o}  {content(path)}"


def content(path: Path) -> str:
    """What a file says."""
    if path.suffix == ".properties":
        text = path.read_text()
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        return without_random_ids(" ".join(lines))
    said = []
    for batch in read_snapshot(path):
        for control in batch.controls:
            value = {name: each for name, each in control.value.items() if name != "lastContainedLogTimestamp"}
            said.append(f"@{batch.base_offset} {ControlType(control.type).name} {value}")
        said += [f"{value['name']}={_told(value)}" for _, _, value in batch.records]
    return without_random_ids(" ".join(said))


def _told(value: Mapping[str, Any]) -> str:
    """Return a feature's level or a SCRAM credential as text. Without a given salt, salt and keys are random and left
    out."""
    if "featureLevel" in value:
        return str(value["featureLevel"])
    if base64.b64encode(value["salt"]).decode() not in SCRIPT.read_text():
        return f"{value['mechanism']} {value['iterations']}"
    keys = " ".join(value[name].hex() for name in ("salt", "storedKey", "serverKey"))
    return f"{value['mechanism']} {value['iterations']} {keys}"


def without_random_ids(text: str) -> str:
    """Return the text with ID in place of ids that the script does not give."""
    given = SCRIPT.read_text()
    return re.sub(r"(?<=[='])[A-Za-z0-9_-]{22}(?=['\s]|$)", lambda found: found[0] if found[0] in given else "ID", text)
