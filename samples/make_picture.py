"""Make samples/kcli.svg, the picture in README: what a terminal shows.

Run it after a change of what the commands below print, which a test notices: python samples/make_picture.py
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "samples" / "kcli.svg"
WIDTH = 120
COMMANDS = (
    "kcli dump-segment --limit 4 samples/good/java-zstd-0/00000000000000000000.log",
    "kcli verify samples/broken/crc-field-flip-0",
)


def on_terminal(command: str) -> str:
    """What the command prints to a terminal, escape sequences and all."""
    ours, theirs = pty.openpty()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen(  # noqa: S603  (kcli itself)
        command.split(), cwd=ROOT, env=environment, stdout=theirs, stderr=subprocess.DEVNULL
    ):
        os.close(theirs)
        output = b""
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            output += chunk
    os.close(ours)
    return output.decode().replace("\r\n", "\n")


def picture() -> str:
    """The commands and their output, as an SVG."""
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    for command in COMMANDS:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(on_terminal(command)), no_wrap=True, overflow="ellipsis")
        console.print()
    return console.export_svg(title="kcli")


if __name__ == "__main__":
    PICTURE.write_text(picture())
