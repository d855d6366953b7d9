"""No module of kcli lets kio load hypothesis, which writes to the working directory (kcli/protocol/kio_serial.py)."""

import subprocess
import sys
from pathlib import Path

import pytest

from kcli.protocol.error_code import ErrorCode
from kcli.protocol.kio_serial import KioErrorCode

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path for path in ROOT.glob("kcli/**/*.py") if "import" in path.read_text() and "kio" in path.read_text()
)


def using_kio() -> list[str]:
    """The modules of kcli that import a module of kio, at their head or in a function."""
    found = []
    for path in SOURCES:
        lines = (line.strip() for line in path.read_text().splitlines())
        if any(line.startswith(("from kio.", "import kio.")) for line in lines):
            found.append(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    return found


def loads_hypothesis(program: str, directory: Path) -> bool:
    """Whether a Python that runs the program in the directory has, at its end, hypothesis loaded or a file written."""
    program += "\nimport sys\nsys.exit('hypothesis' in sys.modules)"
    command = [sys.executable, "-c", program]
    process = subprocess.run(command, check=False, cwd=directory, capture_output=True, text=True)
    assert not process.stderr, process.stderr
    return bool(process.returncode) or any(directory.iterdir())


@pytest.mark.parametrize("module", using_kio())
def test_a_module_that_uses_kio_loads_no_hypothesis(module: str, tmp_path: Path) -> None:
    assert not loads_hypothesis(f"import {module}", tmp_path)


@pytest.mark.parametrize(
    "call",
    [
        "from kcli.client.connection import error_name; error_name(KafkaError(3))",
        "from kcli.testing.faults import _known_api; _known_api('Produce')",
    ],
)
def test_a_function_that_uses_kio_loads_no_hypothesis(call: str, tmp_path: Path) -> None:
    assert not loads_hypothesis(f"from confluent_kafka import KafkaError\n{call}", tmp_path)


def test_kio_itself_loads_hypothesis(tmp_path: Path) -> None:
    """Otherwise the tests above could not fail."""
    assert loads_hypothesis("import kio.schema.errors", tmp_path)


def test_kios_error_codes_are_those_of_kcli() -> None:
    """kcli.protocol.error_code needs no kio: a code that Kafka adds must come into both."""
    assert {each.name.upper(): int(each) for each in KioErrorCode} == {each.name: int(each) for each in ErrorCode}
