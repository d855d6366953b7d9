"""Run kcli's commands on a partition's directory: each ends with a result or with a typed error.

This holds for any names, sizes and neighbours of its files: see tests.damage.disordered.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from errno import ENOENT
from pathlib import Path

from formats.errors import FormatError
from kcli.errors import KcliError
from kcli.inspector.file_entries import file_entries
from kcli.inspector.inputs import LOGS, input_files
from kcli.inspector.kafka_options import IndexTextOptions, KafkaDumpOptions, KafkaTextOptions, Notes
from kcli.inspector.kafka_text import dump_file
from kcli.inspector.log_records import TableOptions, print_jsonl, print_table
from kcli.inspector.seek import start_position
from kcli.inspector.selection import ALL
from kcli.inspector.verify import Verification
from kcli.log.cleaner.cleaner import PartitionCleaner
from kcli.log.cleaner.partition import read_log
from kcli.log.cleaner.why import explain_key
from kcli.log.config import CleanerConfig, LogConfig
from kcli.log.disk import Disk
from kcli.log.live.partition_log import EARLIEST, LATEST, MAX_TIMESTAMP, Isolation, LogFailed, OffsetOutOfRange
from kcli.log.read_only.log import ReadOnlyLog
from kcli.log.recovery.run import Recovery
from kcli.log.source import FileSource

NOW_MS = 1_795_262_006_000
COMPACT = LogConfig({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
SMALL_MAP = CleanerConfig(dedupe_buffer_bytes=24 * 40)
PAGE_BYTES = 1 << 20


def nothing(_text: memoryview) -> None:
    """Where text goes that nobody reads."""


def verify(partition: Path) -> None:
    """Every finding, with its text. A file that is not there is a fault: nothing deletes any meanwhile."""
    verification = Verification([partition])
    for finding in verification.findings():
        str(finding)
    for each in verification.unreadable:
        if each.errno == ENOENT:
            raise each


def recover(partition: Path) -> None:
    """Plan what a start would do after a crash, with and without salvage."""
    for salvage in (False, True):
        for plan in Recovery(partition, NOW_MS, clean=False, salvage=salvage, threads=1).plans():
            str((plan.events, plan.view.changed(), plan.view.removed()))


def compact(partition: Path) -> None:
    """Compact with a map that holds all keys and with one that is soon full, and write the result beside the
    partition."""
    with suppress(KcliError):
        _clean(partition, CleanerConfig(), None)
    with suppress(KcliError):
        _clean(partition, SMALL_MAP, None)
    target = partition.parent / "compacted-0"
    target.mkdir()
    _clean(partition, CleanerConfig(), target)


def _clean(partition: Path, broker: CleanerConfig, target: Path | None) -> None:
    log = read_log(partition, now_ms=NOW_MS, producer_expiration_ms=86_400_000)
    explain_key(log, COMPACT, broker, b"key", checkpoint=None, now_ms=NOW_MS)
    PartitionCleaner(log, COMPACT, broker, now_ms=NOW_MS, disk=Disk(), target=target).clean(None)


def dump(partition: Path) -> None:
    """Every file in every format."""
    for path in sorted(path for path in partition.iterdir() if path.is_file()):
        with suppress(KcliError, FormatError):
            _dump(path)


def _dump(path: Path) -> None:
    (file,) = input_files(path, None)
    if file.type in LOGS:
        source = FileSource(path)
        print_table(source, file.topic, nothing, TableOptions())
        selection = ALL.narrowed(from_offset=120, limit=3)
        start = start_position(path, selection)
        print_jsonl(source, file.topic, file.partition, nothing, start=start, selection=selection)
        source.close()
    else:
        for entry in file_entries(path, file.type):
            json.dumps(entry)
    options = KafkaDumpOptions(KafkaTextOptions(print_data_log=True), IndexTextOptions())
    dump_file(path, options, nothing, Notes(), file_type=file.type)


def serve_read_only(partition: Path) -> None:
    """Look up what `kcli serve --read-only` looks up in a log, and read it whole."""
    log = ReadOnlyLog(partition, LogConfig())
    try:
        with suppress(LogFailed, OffsetOutOfRange):
            start, end = log.log_start_offset, log.log_end_offset
            str((log.high_watermark, log.last_stable_offset, log.latest_epoch))
            log.offset_for_leader_epoch(0)
            for timestamp in (EARLIEST, LATEST, MAX_TIMESTAMP, NOW_MS, 0):
                log.offset_for_timestamp(timestamp)
            log.producers.table.entries()
            at = start
            for _ in range(20):
                found = log.read(at, PAGE_BYTES, Isolation.TXN_COMMITTED)
                str(found)
                at = start + (end - start) // 2 if at == start else at + 1
                if at >= end:
                    break
    finally:
        log.release_handles()


def export(partition: Path) -> None:
    """Read record batches as an export does; damage is skipped and reported, or ends it."""
    from kcli.export.corruption import CorruptLog
    from tests.export.tables import load

    options = {"columns": "*", "isolation": "read_committed", "includeControl": "true"}
    load(partition, onCorruption="skip", **options)
    with suppress(CorruptLog):
        load(partition, **options)


COMMANDS: dict[str, Callable[[Path], None]] = {
    "verify": verify,
    "recover": recover,
    "compact": compact,
    "dump-segment": dump,
    "serve --read-only": serve_read_only,
    "export-to-parquet": export,
}


def run(command: str, partition: Path) -> None:
    """Run one command, which may raise kcli's own errors only."""
    with suppress(KcliError, FormatError):
        COMMANDS[command](partition)
