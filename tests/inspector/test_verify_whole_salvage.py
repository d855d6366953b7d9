"""Where the next step of one finding leads to the salvage of a whole log directory, no other finding has one for the
salvage of a single partition in it: the first copy has that mended, too."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.next_order import with_whole_salvage
from tests.cli.run import kcli
from tests.conftest import GOLDEN

PARTITION = "java-none-0"
SALVAGE = "the salvage above does it, too"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "codecs/data", tmp_path / "data", copy_function=shutil.copyfile))


def damaged(data: Path) -> None:
    log = sorted((data / PARTITION).glob("*.log"))[1]
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 0xFF
    log.write_bytes(content)


def emptied(data: Path) -> None:
    sorted((data / PARTITION).glob("*.log"))[1].write_bytes(b"")


def lines(data: Path) -> list[str]:
    shown = kcli("verify", data).stdout.splitlines()
    return [each.strip() for each in shown if each.strip().startswith(("Next: ", SALVAGE))]


@pytest.mark.parametrize("damage", [damaged, emptied])
def test_a_checkpoint_and_a_log(data: Path, damage: Callable[[Path], None]) -> None:
    damage(data)
    (alone,) = lines(data)
    assert alone.startswith("Next: ")
    assert "--salvage" in alone
    (data / "log-start-offset-checkpoint").write_text("0\n2\njava-none 0 0\n")
    assert lines(data) == [f"Next: kcli recover --salvage --dry-run {data}", SALVAGE]


def finding(command: str) -> Finding:
    return Finding(path="", kind="", severity="error", position=0, found="", action="", command=command)


@pytest.mark.parametrize(
    ("commands", "shown", "covered"),
    [
        (
            ["recover --dry-run /d", "recover --unclean --salvage --dry-run /d/a-0"],
            "recover --salvage --dry-run /d",
            [False, True],
        ),
        (
            ["recover --dry-run /d", "recover --unclean --dry-run /d/a-0"],  # which may be wanted in place
            "recover --dry-run /d",
            [False, False],
        ),
        (
            ["recover --dry-run /d", "recover --salvage --dry-run /d"],
            "recover --salvage --dry-run /d",
            [False, True],
        ),
        (
            ["recover --salvage --dry-run /e", "recover --unclean --salvage --dry-run /d/a-0"],
            "recover --salvage --dry-run /e",
            [False, False],
        ),
        (
            ["recover --unclean --salvage --dry-run /d/a-0", "recover --salvage --dry-run /d"],
            "recover --unclean --salvage --dry-run /d/a-0",
            [False, False],
        ),
    ],
)
def test_which_commands_are_left_out(commands: list[str], shown: str, covered: list[bool]) -> None:
    found, left_out = with_whole_salvage([finding(f"kcli {each}") for each in commands])
    assert (found[0].command, left_out) == (f"kcli {shown}", covered)
