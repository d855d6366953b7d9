"""`--format kafka` against every saved run of kafka-dump-log 4.3: each line of its stdout, in order.

Where Kafka's tool ended with an exception its stdout is the beginning of ours: we go on behind what stopped it.
"""

from contextlib import suppress
from pathlib import Path

import pytest

from kcli.errors import UnreadableInput
from kcli.inspector.kafka_options import IndexTextOptions, KafkaDumpOptions, KafkaTextOptions, Notes
from kcli.inspector.kafka_text import dump_file
from tests.conftest import GOLDEN, Json, dump_runs

# 3,230 saved runs of sound sets, 637 of damaged files; each is compared.
RUNS = {
    "codecs": 366,
    "compact": 1532,
    "corrupt": 637,
    "groups": 92,
    "kraft": 414,
    "legacy": 109,
    "tiered": 213,
    "txn": 226,
    "unclean": 278,
}


def options_of(flags: list[str]) -> KafkaDumpOptions:
    """The options that Kafka's flags ask for."""
    names = {flag.removeprefix("--").replace("-", "_") for flag in flags}
    decoder = next((flag[2:].removesuffix("-decoder") for flag in flags if flag.endswith("-decoder")), None)
    of_log = {"deep_iteration", "print_data_log", "skip_record_metadata"}
    of_index = {"verify_index_only", "index_sanity_check"}
    assert all(name in of_log | of_index or name.endswith("_decoder") for name in names), names
    return KafkaDumpOptions(
        KafkaTextOptions(**dict.fromkeys(names & of_log, True), decoder=decoder),
        IndexTextOptions(**dict.fromkeys(names & of_index, True)),
    )


def ours(run: Json) -> str:
    """Return what kcli prints for the file and flags of a saved run."""
    text: list[bytes] = []
    with suppress(UnreadableInput):
        dump_file(Path(run["file"]), options_of(run["flags"]), lambda part: text.append(bytes(part)), Notes())
    return b"".join(text).decode(errors="replace")


@pytest.mark.parametrize("golden_set", RUNS)
def test_stdout_equals_every_saved_run(golden_set: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN / golden_set)
    compared, unfinished = 0, 0
    for run in dump_runs(golden_set):
        text = ours(run)
        place = run["file"], run["flags"]
        if run["exit"] == 0:
            assert text == run["stdout"], place
        else:
            assert text.startswith(run["stdout"]), place
            unfinished += 1
        compared += 1
    print(f"{golden_set}: {compared:,} runs of kafka-dump-log equal, {unfinished:,} of them up to its crash")
    assert compared == RUNS[golden_set]
