"""The kit runs the same tool that made the golden data: some of its saved dumps once more, byte for byte."""

import subprocess
from pathlib import Path

import pytest

from tests.conftest import GOLDEN, dump_runs
from tests.interop import kit
from tests.interop.conftest import KafkaDump

EACH = 97  # every so many saved runs


@pytest.mark.parametrize("golden_set", ["codecs", "txn", "corrupt"])
def test_dump_equals_saved_runs(kafka_dump: KafkaDump, golden_set: str) -> None:
    runs = [run for number, run in enumerate(dump_runs(golden_set)) if number % EACH == 0]
    for run in runs:
        output = kafka_dump(["--files", run["file"], *run["flags"]], cwd=GOLDEN / golden_set)
        assert (output.stdout, output.exit) == (run["stdout"], run["exit"]), run["file"]
    assert runs


def test_a_tool_server_that_ended_is_started_anew(kafka_jars: Path) -> None:
    server = kit.ToolServer(kafka_jars)
    for _ in range(2):
        assert server.run(kit.TOOLS["format"], ["random-uuid"]).exit == 0
        assert server.process is not None
        server.process.kill()
        with pytest.raises((ValueError, OSError)):
            server.run(kit.TOOLS["format"], ["random-uuid"])


def test_a_jvm_takes_its_classes_from_the_archive(kafka_jars: Path) -> None:
    if not (kit.kit_dir() / "kafka.jsa").stat().st_size:
        pytest.skip("this Java writes no archive of classes")
    quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *kit.shared_classes()]
    command = ["java", *quick, "-Xlog:class+load", "-cp", f"{kafka_jars}/*", "kafka.Kafka"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert "kafka.Kafka$ source: shared objects file (top)" in loaded
