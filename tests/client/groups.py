"""Members of groups as processes."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.warm import Forked, warm_kcli
from tests.client.clusters import Cluster

WAIT_S = 30


class Running:
    """A member that runs: `kcli consume --group`."""

    def __init__(self, process: Forked, out: Path, err: Path) -> None:
        self.process = process
        self._out = out
        self._err = err

    @property
    def shown(self) -> list[str]:
        """The lines on stdout so far."""
        return self._out.read_text().splitlines()

    @property
    def told(self) -> list[str]:
        """Return the member's lines on stderr so far, without the program's name."""
        return [line.removeprefix("kcli: ") for line in self._err.read_text().splitlines()]

    @property
    def assigned(self) -> set[str]:
        """Return the member's partitions as `topic:partition`, from its lines."""
        has: set[str] = set()
        for line in self.told:
            what, _, partitions = line.partition(" ")
            named = {
                f"{topic}:{number}"
                for topic, numbers in re.findall(r"([^;:]+):([\d,]+)", partitions)
                for number in numbers.split(",")
            }
            has = has | named if what == "assigned" else has - named
        return has

    def interrupt(self) -> int:
        """Ctrl-C, and its exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(WAIT_S)


@contextmanager
def member(cluster: Cluster, directory: Path, *arguments: str) -> Iterator[Running]:
    """Yield a member; kill it at the end if it still runs."""
    number = len(list(directory.iterdir()))
    out, err = directory / f"{number}.out", directory / f"{number}.err"
    environment = os.environ | {"KCLI_BOOTSTRAP_SERVER": cluster.address}
    with out.open("wb") as stdout, err.open("wb") as stderr:
        command = ["consume", *arguments, "-f", "%t %p %o\\n"]
        process = warm_kcli().start(command, env=environment, stdout=stdout, stderr=stderr)
    try:
        yield Running(process, out, err)
    finally:
        process.kill()
        process.wait()


def until(condition: Callable[[], object]) -> None:
    """Wait for it."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
