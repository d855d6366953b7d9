"""Every sound golden file of every kind is parsed and built again, with Kafka's bytes."""

import base64
from pathlib import Path

import pytest

from formats import control_record, file_name, legacy, record_batch
from formats.errors import FormatError
from formats.file_name import FileKind
from tests.conftest import GOLDEN, truth
from tests.formats.rebuild import REBUILD

SETS = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir() and path.name not in ("aiven", "corrupt"))
OF_TEXT = {
    FileKind.LEADER_EPOCHS,
    FileKind.REMOTE_LEADER_EPOCHS,
    FileKind.RECOVERY_POINTS,
    FileKind.REPLICATION_OFFSETS,
    FileKind.LOG_START_OFFSETS,
    FileKind.CLEANER_OFFSETS,
}
DAMAGED = {  # by what Kafka says or the case says is wrong; the rest of a case's files is sound
    "epoch-checkpoint-count-wrong": "BadCount",
    "epoch-checkpoint-garbage": "BadValue",
    "epoch-checkpoint-version-7": "UnknownVersion",
    "snapshot-bad-crc": "BadChecksum",
    "snapshot-count-1000": "Truncated",
    "snapshot-empty": "Truncated",
    "snapshot-garbage": "UnknownVersion",
    "snapshot-payload-flip": "BadChecksum",
    "snapshot-truncated": "Truncated",
    "snapshot-version-9": "UnknownVersion",
    "timeindex-length-not-multiple": "BadLength",
    "txnindex-length-not-multiple": "BadLength",
    "txnindex-version-5": "UnknownVersion",
    "leftover-files": "Truncated",
    "dir-cleaner-offset-checkpoint-garbage": "BadValue",
    "dir-log-start-offset-checkpoint-garbage": "BadValue",
    "dir-meta.properties-no-cluster-id": "BadValue",
    "dir-meta.properties-version-9": "UnknownVersion",
    "dir-recovery-point-offset-checkpoint-count-wrong": "BadCount",
    "dir-recovery-point-offset-checkpoint-garbage": "BadValue",
    "dir-recovery-point-offset-checkpoint-version-9": "UnknownVersion",
    "dir-replication-offset-checkpoint-not-a-number": "BadNumber",
}


def files(root: Path) -> list[tuple[FileKind, Path]]:
    """The Kafka files below `root` that have a format of their own, by kind."""
    found = []
    for path in sorted(root.rglob("*")):
        name = file_name.parse(path.name)
        if path.is_file() and name and name.kind in REBUILD and "expected" not in path.parts:
            found.append((name.kind, path))
    return found


@pytest.mark.parametrize("golden_set", SETS)
def test_parse_then_build_gives_the_bytes_of_kafka(golden_set: str) -> None:
    found = files(GOLDEN / golden_set)
    assert found
    for kind, path in found:
        data = path.read_bytes()
        never_written = kind in OF_TEXT and not data
        assert REBUILD[kind](data) == (b"0\n0\n" if never_written else data), path


def test_damaged_files_give_typed_errors() -> None:
    errors: dict[str, str] = {}
    for kind, path in files(GOLDEN / "corrupt"):
        data = path.read_bytes()
        if kind is FileKind.LOG:
            continue
        try:
            assert REBUILD[kind](data) == data or not data, path
        except FormatError as error:
            errors[path.parent.name] = type(error).__name__
    assert errors == DAMAGED


def test_legacy_logs_hold_what_a_consumer_read() -> None:
    for path in sorted((GOLDEN / "legacy" / "data").glob("v*")):
        records: list[tuple[int, int, bytes | None, bytes | None]] = []
        for segment in sorted(path.glob("*.log")):
            data, position = segment.read_bytes(), 0
            while position < len(data):
                if data[position + legacy.MAGIC_AT] == record_batch.MAGIC:
                    batch = record_batch.parse_batch(data, position)
                    records += [(batch.offset(r), batch.timestamp_ms(r), r.key, r.value) for r in batch.records]
                    position += batch.header.size
                else:
                    message = legacy.parse_message(data, position)
                    records += [(m.offset, m.timestamp, m.key, m.value) for m in legacy.unwrap(message)]
                    position += message.size
        expected = truth(f"legacy/expected/truth/{path.name[:-2]}.jsonl.gz")
        read = [(e["offset"], e["timestamp"], plain(e["key"]), plain(e["value"])) for e in expected]
        assert records == read, path.name


def plain(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def test_control_records_of_every_type() -> None:
    seen = set()
    for golden_set in ("txn", "kraft"):
        for kind, path in files(GOLDEN / golden_set):
            if kind not in (FileKind.LOG, FileKind.KRAFT_SNAPSHOT, FileKind.BOOTSTRAP):
                continue
            data, position = path.read_bytes(), 0
            while position < len(data):
                header = record_batch.parse_header(data, position)
                if header.is_control:
                    for record in record_batch.parse_batch(data, position).records:
                        control = control_record.parse(record.key, record.value)
                        assert control_record.build(control) == (record.key, record.value)
                        seen.add(control.type)
                position += header.size
    assert seen == set(control_record.ControlType)


def test_file_names_are_taken_apart_and_put_together() -> None:
    unknown = set()
    for path in GOLDEN.rglob("*"):
        if not {"aiven", "expected"}.isdisjoint(path.parts) or path.parent == GOLDEN or not path.is_file():
            continue  # the names of Aiven's plugin are those of kcli.tier.plugin_layout
        name = file_name.parse(path.name)
        if name is None:
            unknown.add(path.name)
        elif path.parent.name != "remote-log-index-cache":  # offsets are not padded there
            assert file_name.build(name) == path.name
    assert unknown == {"cases.jsonl", "metadata-log-dir.tar.gz"}
