"""verify's predictions of the next start are what `kcli recover` simulates, and what real Kafka 4.3 did."""

import json
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kcli.inspector.verify import Finding, Verification
from tests.cli.run import kcli
from tests.damage import frames, mended
from tests.inspector.test_verify_causes import OTHER, PARTITION, directory, flip, logs, loud
from tests.inspector.test_verify_variations import batches_of

__all__ = ["directory"]

EMPTIES = "Kafka empties the file when it starts, and deletes the segments behind it"


def of_log(directory: Path, log: Path) -> Finding:
    return next(each for each in loud(directory) if each.path == str(log))


def crashed(directory: Path) -> None:
    """Before anything was flushed."""
    (directory / ".kafka_cleanshutdown").unlink()
    (directory / "recovery-point-offset-checkpoint").write_text("0\n0\n")


def rewritten(log: Path, number: int, field: int, form: str, value: int) -> None:
    data = bytearray(log.read_bytes())
    start, _ = frames(data)[number]
    struct.pack_into(form, data, start + field, value)
    log.write_bytes(mended(data))


def test_zeros_behind_the_end_keep_a_clean_start_from_ending(directory: Path) -> None:
    log = logs(directory)[-1]
    with log.open("ab") as file:
        file.write(bytes(4096))
    finding = of_log(directory, log)
    assert finding.action.startswith("Kafka does not start with it: batch length 0")
    assert finding.command is not None
    assert finding.command.startswith("rm -- ")


def test_a_batch_that_reaches_into_the_next_empties_the_segment(directory: Path) -> None:
    crashed(directory)
    log = logs(directory)[0]
    data = log.read_bytes()
    start, _ = frames(data)[1]
    (delta,) = struct.unpack_from(">i", data, start + 23)
    rewritten(log, 1, 23, ">i", delta + 40)
    finding = of_log(directory, log)
    assert finding.action.startswith(f"{EMPTIES}: offsets 0..297 are lost")


@pytest.mark.parametrize("is_checked", [True, False])
def test_a_flipped_base_offset_for_which_the_start_empties_the_segment(directory: Path, *, is_checked: bool) -> None:
    """It comes before an index of another segment, of which Kafka's start loses nothing."""
    if is_checked:
        crashed(directory)
    other, log, third = logs(directory)[:3]
    data = bytearray(log.read_bytes())
    start, _ = frames(data)[1]
    data[start + 6] ^= 2  # 512 offsets further
    log.write_bytes(data)
    shutil.copyfile(third.with_suffix(".index"), other.with_suffix(".index"))
    found = {each.kind: each for each in loud(directory)}
    assert list(found) == (["offsets-order", "index-foreign"] if is_checked else ["index-foreign", "offsets-order"])
    finding = found["offsets-order"]
    assert (finding.path, finding.position) == (str(log), start)
    outcome = "Kafka keeps this batch as it is, and consumers skip the batches behind it"
    if is_checked:
        rows = recovered(directory)
        assert [row["kind"] for row in rows] == ["emptied", "segment-removed", "segment-removed"]
        first, last = rows[0]["lost_first_offset"], rows[-1]["lost_last_offset"]
        outcome = f"{EMPTIES}: offsets {first}..{last} are lost"
    assert finding.action == f"{outcome}; salvage puts the base offset right, in a copy"


def test_an_offset_too_far_up_splits_the_segment(directory: Path) -> None:
    crashed(directory)
    log = logs(directory)[1]
    for each in logs(directory)[2:]:
        each.unlink()
    rewritten(log, len(frames(log.read_bytes())) - 1, 0, ">q", 2**63 - 2)
    flip(log.with_suffix(".snapshot"), 4)
    finding = of_log(directory, log)
    assert "splits the segment" in finding.action
    assert "takes no more batches" in finding.action
    assert "snapshot-crc" not in finding.consequences


def test_the_files_behind_a_cut_are_deleted(directory: Path) -> None:
    crashed(directory)
    one, two = logs(directory)[1:3]
    flip(one, one.stat().st_size // 2)
    flip(two, two.stat().st_size // 2)
    cut = of_log(directory, one)
    assert cut.action.startswith("Kafka cuts the file here when it starts, and deletes the segments behind it: offsets")
    assert cut.command is not None
    assert cut.command.startswith("kcli recover --unclean --salvage --dry-run ")
    assert of_log(directory, two).action.startswith("Kafka deletes the file when it starts (segment ")


def test_a_clean_start_cuts_the_metadata_log_as_well(directory: Path) -> None:
    log = logs(directory, "__cluster_metadata-0")[0]
    flip(log, log.stat().st_size // 2)
    assert of_log(directory, log).action.startswith("Kafka cuts the file here when it starts: offsets ")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_index_of_a_longer_log_does_not_say_that_the_log_was_cut(directory: Path, number: int) -> None:
    index = logs(directory)[number].with_suffix(".index")
    shutil.copyfile(logs(directory, OTHER)[0].with_suffix(".index"), index)
    assert {each.path for each in loud(directory / PARTITION)} == {str(index)}


def test_exchanged_indexes_are_one_finding(directory: Path) -> None:
    log = logs(directory)[1]
    index, times = log.with_suffix(".index"), log.with_suffix(".timeindex")
    one, other = index.read_bytes(), times.read_bytes()
    index.write_bytes(other)
    times.write_bytes(one)
    (finding,) = loud(directory)
    assert finding.kind == "index-swapped"
    assert finding.path == str(index)
    assert finding.command is not None
    subprocess.run(finding.command, shell=True, check=True)
    assert (index.read_bytes(), times.read_bytes()) == (one, other)
    assert not loud(directory)


def test_a_wrong_timestamp_takes_what_the_time_index_contradicts(directory: Path) -> None:
    log = logs(directory)[1]
    rewritten(log, 1, 35, ">q", 2**62)
    (finding,) = loud(directory)
    assert finding.kind == "max-timestamp"
    assert finding.consequences["timeindex-timestamp"] > 0


def damaged_snapshot(directory: Path, name: str) -> Path:
    path = directory / "__cluster_metadata-0" / name
    shutil.copyfile(directory / "bootstrap.checkpoint", path)
    flip(path, path.stat().st_size // 2)
    return path


def test_kafka_does_not_start_with_a_damaged_latest_snapshot(directory: Path) -> None:
    old = damaged_snapshot(directory, f"{10:020}-{1:010}.checkpoint")
    path = damaged_snapshot(directory, f"{20:020}-{1:010}.checkpoint")
    verification = Verification([directory])
    found = {each.path: each for each in verification.findings() if each.severity == "error"}
    assert found[str(path)].action.startswith("Kafka does not start with it: byte ")
    assert found[str(path)].command == f"kcli recover --dry-run '{directory}'"
    assert found[str(old)].action.startswith("nothing to do: Kafka reads the latest snapshot")
    assert verification.unknown == 0


def test_kafka_does_not_start_with_a_damaged_bootstrap_checkpoint(directory: Path) -> None:
    path = directory / "bootstrap.checkpoint"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    finding = of_log(directory, path)
    assert finding.kind == "bootstrap-checkpoint"
    assert str(finding.found).endswith(": Kafka does not start with it")
    assert finding.command == f"mv -nT -- '{path}' '{path}.moved'"


def test_kafka_reads_a_bootstrap_checkpoint_with_a_wrong_crc(directory: Path) -> None:
    path = directory / "bootstrap.checkpoint"
    flip(path, 17)
    found = [each for each in Verification([directory]).findings() if each.path == str(path)]
    assert {each.severity for each in found} == {"warning"}
    assert {each.action.partition(":")[0] for each in found} == {"nothing to do"}


def test_an_emptied_meta_properties_is_told_as_empty(directory: Path) -> None:
    path = directory / "meta.properties"
    path.write_bytes(b"")
    assert of_log(directory, path).found == "an empty file: Kafka does not start"


def flush_nothing(directory: Path, *partitions: str) -> None:
    """Remove the recovery points of these partitions: a start without the marker reads all of their logs."""
    path = directory / "recovery-point-offset-checkpoint"
    names = {partition.replace("-0", " 0") for partition in partitions}
    left = [line for line in path.read_text().splitlines()[2:] if line.rpartition(" ")[0] not in names]
    path.write_text("".join(f"{line}\n" for line in ("0", len(left), *left)))


def test_the_marker_stays_where_a_start_without_it_deletes_later_segments(directory: Path) -> None:
    flush_nothing(directory, OTHER)
    log = logs(directory, OTHER)[0]
    torn = batches_of(log.read_bytes())[-1].base_offset
    os.truncate(log, log.stat().st_size - 5)
    finding = of_log(directory, log)
    assert "without .kafka_cleanshutdown Kafka cuts the file here when it starts, and deletes the" in finding.action
    assert f"offsets {torn:,}.." in finding.action  # the torn batch is lost, too
    assert finding.command is not None
    assert finding.command.startswith("kcli recover --unclean --salvage --dry-run ")
    assert OTHER in finding.command


def test_the_marker_stays_where_a_start_without_it_is_refused_at_another_file(directory: Path) -> None:
    """The time index of a segment has too little room to be rebuilt."""
    flush_nothing(directory, PARTITION)
    log = logs(directory)[-1]
    os.truncate(log, log.stat().st_size - 5)
    finding = of_log(directory, log)
    assert "; without .kafka_cleanshutdown Kafka does not start: 00000000000000000108.log: the time" in finding.action
    assert str(finding.command).startswith("kcli recover --unclean --salvage --dry-run ")


def test_the_marker_stays_where_a_start_without_it_harms_another_partition(directory: Path) -> None:
    """The start would cut the damage in the last segment without a loss."""
    flush_nothing(directory, OTHER)
    log, other = logs(directory)[-1], logs(directory, OTHER)[0]
    os.truncate(log, log.stat().st_size - 5)
    assert str(of_log(directory, log).command).startswith("rm -- ")
    flip(other, other.stat().st_size // 2)
    finding = of_log(directory, log)
    assert f"that start would harm {OTHER}, too" in finding.action
    assert str(finding.command).startswith("kcli recover --salvage --dry-run ")


def test_the_marker_stays_where_a_start_without_it_is_refused(directory: Path) -> None:
    log = logs(directory)[-1]
    os.truncate(log, 3 << 30)
    finding = of_log(directory, log)
    assert finding.action.startswith("Kafka does not start with it: ")
    assert "without .kafka_cleanshutdown it does neither" in finding.action
    assert str(finding.command).startswith("kcli recover --unclean --salvage --dry-run ")


def test_the_marker_stays_where_another_partition_cannot_be_read(directory: Path) -> None:
    """The effect of a start without the marker on that partition is not known."""
    log, other = logs(directory)[-1], logs(directory, OTHER)[-1]
    os.truncate(log, log.stat().st_size - 5)
    assert str(of_log(directory, log).command).startswith("rm -- ")
    epochs = other.with_name("leader-epoch-checkpoint")
    epochs.unlink()
    epochs.symlink_to(epochs.name)
    found = Verification([directory]).findings()
    finding = next(each for each in found if each.path == str(log) and each.severity == "error")
    assert str(finding.command).startswith("kcli recover ")


def test_a_file_alone_with_sound_batches_behind_the_damage_is_salvaged(directory: Path) -> None:
    log = logs(directory)[1]
    flip(log, 100)
    finding = of_log(log, log)
    assert finding.next_valid_position is not None
    assert str(finding.command).startswith("kcli recover --unclean --salvage --dry-run ")


def test_a_file_is_not_moved_away_where_the_start_then_loses_what_salvage_keeps(directory: Path) -> None:
    path = directory / "bootstrap.checkpoint"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    (metadata,) = directory.glob("__cluster_metadata-0/*.log")
    flip(metadata, metadata.stat().st_size // 2)
    finding = of_log(directory, path)
    assert "salvage keeps what the metadata log has" in finding.action
    assert finding.command == f"kcli recover --salvage --dry-run '{directory}'"


def test_a_checkpoint_is_not_written_anew_before_logs_have_their_names_back(directory: Path) -> None:
    """Recovery would write it from the emptied logs; salvage takes the logs beside them."""
    path = directory / "recovery-point-offset-checkpoint"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert of_log(directory, path).command == f"kcli recover --dry-run '{directory}'"
    log = logs(directory)[0]
    shutil.copyfile(log, log.with_name(f"{log.name}.1"))
    log.write_bytes(b"")
    finding = of_log(directory, path)
    assert f"recovery would lose sound records of {log.parent.name}: salvage keeps them" in finding.action
    assert finding.command == f"kcli recover --salvage --dry-run '{directory}'"


@pytest.mark.parametrize("other", [0, 1, -1])
@pytest.mark.parametrize("at_start", [False, True])
def test_batches_of_another_partition_in_a_segment_that_a_start_deletes(
    directory: Path, other: int, *, at_start: bool
) -> None:
    """The offsets of these batches are not lost: verify and recover report only those of the partition itself."""
    crashed(directory)
    _, cut, removed, last = logs(directory)
    flip(cut, frames(cut.read_bytes())[-1][0] + 70)
    sound = recovered(directory)
    data = removed.read_bytes()
    at = 0 if at_start else frames(data)[2][0]
    removed.write_bytes(data[:at] + logs(directory, OTHER)[other].read_bytes() + data[at:])
    after = recovered(directory)
    fields = ("file", "lost_first_offset", "lost_last_offset", "lost_records")
    assert [[row[each] for each in fields] for row in after] == [[row[each] for each in fields] for row in sound]
    assert [row["file"] for row in after] == [each.name for each in (cut, removed, last)]
    end = after[-1]["lost_last_offset"]
    range_text = f"offsets {after[0]['log_end_offset']}..{end} are lost"
    assert f"deletes the segments behind it: {range_text}" in of_log(directory, cut).action


def recovered(directory: Path) -> list[dict[str, Any]]:
    """Return the rows of `kcli recover` that lose records."""
    rows = map(json.loads, kcli("recover", "--format", "jsonl", directory / PARTITION).stdout.splitlines())
    return [row for row in rows if "lost_batches" in row]


def cut_to_first_batch(directory: Path) -> Path:
    """Cut the last log of a partition behind its first batch, so that the offset index leads behind its end."""
    log = next(
        logs(directory, path.name)[-1] for path in sorted(directory.glob("java-*")) if has_index(directory, path)
    )
    with log.open("r+b") as file:
        file.truncate(frames(log.read_bytes())[0][1])
    return log


def has_index(directory: Path, partition: Path) -> bool:
    return logs(directory, partition.name)[-1].with_suffix(".index").stat().st_size > 0


def test_a_clean_start_hides_the_rest_of_a_log_that_was_cut(directory: Path) -> None:
    """The start takes the end of the log from the offset index: it is the base offset, and not the cut."""
    log = cut_to_first_batch(directory)
    base = int(log.stem)
    finding = of_log(directory, log)
    assert (finding.kind, finding.lost_first_offset) == ("log-cut", finding.offset)
    hidden = (
        f"offset {base:,} is" if finding.offset == base + 1 else f"offsets {base:,}..{(finding.offset or 0) - 1:,} are"
    )
    assert "Without either, a clean start takes the end of the log from the offset index" in finding.action
    assert (
        f"the log then ends at {base:,}: {hidden} lost, too, and new records get offsets from {base:,} on"
        in finding.action
    )
    assert (
        f"without .kafka_cleanshutdown Kafka recovers the log, which then ends at {finding.offset:,}" in finding.action
    )
    assert finding.command == f"rm -- '{directory}/.kafka_cleanshutdown'"
    told = [json.loads(line) for line in kcli("recover", "--format", "jsonl", log.parent).stdout.splitlines()]
    assert [each["lost_last_offset"] for each in told if each["kind"] == "end-hidden"] == [(finding.offset or 0) - 1]


def test_a_crash_ends_a_log_that_was_cut_where_it_was_cut(directory: Path) -> None:
    crashed(directory)
    log = cut_to_first_batch(directory)
    finding = of_log(directory, log)
    assert finding.action.endswith("Without either, new records get these offsets")
    assert finding.command == f"kcli recover --unclean --dry-run '{log.parent}'"


def test_the_next_start_is_not_called_a_later_one(directory: Path) -> None:
    (directory / ".kafka_cleanshutdown").unlink()
    log = logs(directory)[-1]
    flip(log, frames(log.read_bytes())[-1][0] + 30)
    finding = of_log(directory, log)
    assert (finding.kind, finding.action) == ("batch-crc", "Kafka cuts the file here when it starts")


@pytest.mark.parametrize("is_clean", [True, False])
def test_before_a_clean_start_no_start_after_a_crash_is_shown(directory: Path, *, is_clean: bool) -> None:
    """A log before the last one that was cut: no clean start looks at it."""
    log = logs(directory)[0]
    with log.open("r+b") as file:
        file.truncate(frames(log.read_bytes())[0][1])
    if not is_clean:
        crashed(directory)
    finding = of_log(directory, log)
    options = "--salvage --dry-run" if is_clean else "--unclean --dry-run"
    assert (finding.kind, finding.command) == ("log-cut", f"kcli recover {options} '{log.parent}'")
