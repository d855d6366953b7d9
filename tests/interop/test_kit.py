"""The kit runs the same tool that made the golden data: some of its saved dumps once more, byte for byte."""

import pytest

from tests.conftest import GOLDEN, dump_runs
from tests.interop.conftest import KafkaDump

EACH = 97  # every so many saved runs


@pytest.mark.parametrize("golden_set", ["codecs", "txn", "corrupt"])
def test_dump_equals_saved_runs(kafka_dump: KafkaDump, golden_set: str) -> None:
    runs = [run for number, run in enumerate(dump_runs(golden_set)) if number % EACH == 0]
    for run in runs:
        output = kafka_dump(["--files", run["file"], *run["flags"]], cwd=GOLDEN / golden_set)
        assert (output.stdout, output.exit) == (run["stdout"], run["exit"]), run["file"]
    assert runs
