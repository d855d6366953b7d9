"""kcli as a process: what it prints and how it ends. Most calls are forked from a process that has imported the
commands (warm.py)."""

import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli.warm import warm_kcli
from tests.conftest import SAMPLES

KCLI = [sys.executable, "-m", "kcli"]


class Ended(NamedTuple):
    """A process that has ended."""

    stdout: str
    stderr: str
    status: int

    @property
    def complaint(self) -> str:
        """The one line on stderr, and that it is all there is."""
        lines = self.stderr.splitlines()
        assert len(lines) == 1, self.stderr
        return lines[0]


def kcli(*arguments: str | Path, cwd: Path = SAMPLES, **options: Any) -> Ended:
    """Run kcli in a directory. options: of subprocess.run."""
    options = {"timeout": 60, **options}
    if options.keys() <= {"timeout", "env", "input"}:
        words = [str(each) for each in arguments]
        out, err, status = warm_kcli().run(
            words, cwd, env=options.get("env"), given=options.get("input"), timeout=options["timeout"]
        )
        return Ended(out.decode(errors="surrogateescape"), err.decode(errors="replace"), status)
    done = subprocess.run([*KCLI, *arguments], cwd=cwd, capture_output=True, check=False, **options)
    return Ended(done.stdout.decode(errors="surrogateescape"), done.stderr.decode(errors="replace"), done.returncode)


def small_files() -> None:
    """Limit the files of a child process to 600 bytes, before it runs, as a full disk does."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))
