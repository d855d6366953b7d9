"""Dumps of damaged files, of every type and in every format, and every command on directories whose files do not go
together: typed errors only, soon, in little memory.

A run of the suite tries a fixed sample of damage and some that Hypothesis makes; `make soak` makes far more.
"""

import json
import random
import resource
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from formats.errors import FormatError
from kcli.errors import KcliError
from kcli.inspector.file_entries import file_entries
from kcli.inspector.file_type import FileType
from kcli.inspector.inputs import LOGS, InputFile, input_files
from kcli.inspector.kafka_options import IndexTextOptions, KafkaDumpOptions, KafkaTextOptions, Notes
from kcli.inspector.kafka_text import dump_file
from kcli.inspector.log_records import TableOptions, print_jsonl, print_table
from kcli.inspector.seek import start_position
from kcli.inspector.selection import ALL
from kcli.log.source import open_file
from tests.conftest import GOLDEN, examples
from tests.damage import DISORDERS, disordered, mended, segments
from tests.sanitize.directories import COMMANDS, run
from tests.sanitize.inputs import copied

SECONDS = 10
PARTITIONS = [
    GOLDEN / "compact/before/c-txn-0",
    GOLDEN / "txn/data/t-txn-0",
    GOLDEN / "codecs/data/mixed-0",
    GOLDEN / "unclean/crashed/u-txn-0",
    GOLDEN / "kraft/controller-100/__cluster_metadata-0",
]
MEMORY_BYTES = 300 << 20
FILES = [
    "codecs/data/java-none-0/00000000000000000108.log",
    "codecs/data/java-gzip-0/00000000000000000086.log",
    "codecs/data/rdk-snappy-0/00000000000000000000.log",
    "codecs/data/rdk-lz4-0/00000000000000000000.log",
    "codecs/data/java-zstd-0/00000000000000000052.log",
    "codecs/data/java-none-0/00000000000000000108.index",
    "codecs/data/java-none-0/00000000000000000108.timeindex",
    "codecs/data/java-none-0/leader-epoch-checkpoint",
    "codecs/data/java-none-0/partition.metadata",
    "codecs/data/meta.properties",
    "codecs/data/replication-offset-checkpoint",
    "legacy/data/v0-gzip-0/00000000000000000056.log",
    "legacy/data/v1-none-0/00000000000000000069.log",
    "groups/data/__consumer_offsets-1/00000000000000000000.log",
    "groups/data/__share_group_state-0/00000000000000000000.log",
    "kraft/controller-100/__cluster_metadata-0/00000000000000000000.log",
    "kraft/controller-100/__cluster_metadata-0/quorum-state",
    "kraft/controller-100/__cluster_metadata-0/00000000000000000034-0000000001.checkpoint",
    "tiered/data/__remote_log_metadata-0/00000000000000000000.log",
    "txn/data/__transaction_state-0/00000000000000000000.log",
    "txn/data/t-txn-0/00000000000000000004.log",
    "txn/data/t-txn-0/00000000000000000004.txnindex",
    "txn/data/t-txn-0/00000000000000000072.snapshot",
]
FLIPS = st.lists(st.tuples(st.integers(0, 2**30), st.integers(1, 255)), max_size=8)


def damaged(data: bytes, flips: list[tuple[int, int]], cut: int | None, *, mend: bool) -> bytes:
    """Bytes changed and the end cut off; mend: with CRCs that hold, so that what is behind them meets the damage."""
    changed = bytearray(data)
    for place, bits in flips:
        changed[place % len(changed)] ^= bits
    if cut is not None:
        del changed[cut % (len(changed) + 1) :]
    return mended(changed) if mend else bytes(changed)


def dump(path: Path) -> None:
    """The file in every format, with every decoder that fits, whole and from within."""
    (file,) = input_files(path, None)
    for options in (TableOptions(), TableOptions(batches_only=True, fold_bytes=5)):
        if file.type in LOGS:
            source = open_file(path)
            print_table(source, file.topic, nothing, options)
            source.close()
    if file.type in LOGS:
        dump_jsonl(file)
    else:
        with suppress(FormatError):
            for entry in file_entries(path, file.type):
                json.dumps(entry)
    for log in (
        KafkaTextOptions(),
        KafkaTextOptions(print_data_log=True),
        KafkaTextOptions(decoder="offsets", skip_record_metadata=True),
        KafkaTextOptions(decoder="cluster-metadata"),
        KafkaTextOptions(decoder="remote-log-metadata"),
    ):
        dump_file(path, KafkaDumpOptions(log, IndexTextOptions()), nothing, Notes(), file_type=file.type)


def dump_jsonl(file: InputFile) -> None:
    for selection in (ALL, ALL.narrowed(from_offset=120, limit=3), ALL.narrowed(from_time_ms=1_700_002_000_000)):
        text = bytearray()
        source = open_file(file.path)
        start = start_position(file.path, selection)
        print_jsonl(source, file.topic, file.partition, text.extend, selection=selection, start=start)
        source.close()
        for line in text.split(b"\n")[:-1]:
            json.loads(line)


def nothing(_text: memoryview) -> None:
    """Where text goes that nobody reads."""


def check(original: Path, directory: Path, data: bytes) -> None:
    """Dump `data` under the name of `original`, beside what was beside it."""
    path = directory / original.parent.name / original.name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    for suffix in (".log", ".index", ".timeindex"):
        beside = original.with_suffix(suffix)
        if suffix != original.suffix and beside.exists() and not path.with_suffix(suffix).exists():
            path.with_suffix(suffix).write_bytes(beside.read_bytes())
    began = time.process_time()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with suppress(KcliError):
        dump(path)
    assert time.process_time() - began < SECONDS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 < MEMORY_BYTES


@pytest.mark.parametrize("name", FILES)
def test_a_fixed_sample_of_damage(name: str, tmp_path: Path) -> None:
    original = GOLDEN / name
    data = original.read_bytes()[:8000]
    chance = random.Random(name)
    check(original, tmp_path, data)
    for number in range(6):
        flips = [(chance.randrange(len(data)), chance.randrange(1, 256)) for _ in range(1 + number % 4)]
        cut = chance.randrange(len(data)) if number % 3 == 0 else None
        check(original, tmp_path, damaged(data, flips, cut, mend=number % 2 == 0 and original.suffix == ".log"))


@given(name=st.sampled_from(FILES), flips=FLIPS, cut=st.none() | st.integers(0, 2**30), mend=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_damage(name: str, flips: list[tuple[int, int]], cut: int | None, mend: bool, tmp_path: Path) -> None:
    original = GOLDEN / name
    data = original.read_bytes()[:6000]
    check(original, tmp_path, damaged(data, flips, cut, mend=mend and original.suffix in {".log", ".checkpoint"}))


@given(data=st.binary(max_size=400), name=st.sampled_from(FILES))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_anything_under_the_name_of_a_file(data: bytes, name: str, tmp_path: Path) -> None:
    check(GOLDEN / name, tmp_path, data)


def test_every_type_of_file_is_fuzzed() -> None:
    types = {file.type for name in FILES for file in input_files(GOLDEN / name, None)}
    assert types == set(FileType)


def check_commands(partition: Path, commands: list[str]) -> None:
    """Each command ends soon, in little memory, and but for a typed error without one; none changes a file."""
    before = {path.name: path.read_bytes() for path in partition.iterdir()}
    for command in commands:
        began = time.process_time()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        run(command, partition)
        assert time.process_time() - began < SECONDS, command
        assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) << 10 < MEMORY_BYTES, command
    assert {path.name: path.read_bytes() for path in partition.iterdir()} == before


@pytest.mark.parametrize("how", DISORDERS, ids=lambda how: how.__name__)
@pytest.mark.parametrize("source", PARTITIONS, ids=lambda path: path.name)
def test_every_command_on_a_directory_in_disorder(
    how: Callable[[Path, Random], None], source: Path, tmp_path: Path
) -> None:
    for seed in range(3):
        partition = copied(source, tmp_path / str(seed) / source.name)
        how(partition, Random(f"{source.name} {seed}"))
        check_commands(partition, list(COMMANDS))


@given(source=st.sampled_from(PARTITIONS), seed=st.integers(0, 2**32 - 1), command=st.sampled_from(list(COMMANDS)))
@examples(60, soak=20_000)
def test_any_command_on_any_disorder(source: Path, seed: int, command: str) -> None:
    random = Random(seed)
    with tempfile.TemporaryDirectory() as scratch:
        partition = copied(source, Path(scratch) / random.choice((source.name, "t-0")))
        if random.random() < 0.5:  # what there is may be cleaned: another segment follows
            (partition / f"{int(segments(partition)[-1].stem) + 10**6:020}.log").touch()
        disordered(partition, random)
        check_commands(partition, [command])
