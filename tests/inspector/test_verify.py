"""kcli verify on the golden data: it finds every damaged case at its place, and nothing in sound directories."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from kcli.inspector.verify import Finding, Verification
from tests.conftest import GOLDEN, Json, read_jsonl

CASES = {case["id"]: case for case in read_jsonl(GOLDEN / "corrupt" / "cases.jsonl")}
DIR_CASES = {case["id"]: case for case in read_jsonl(GOLDEN / "corrupt" / "expected" / "dir-cases.jsonl")}
GOOD = (
    "codecs/data",
    "compact/after",
    "compact/after2",
    "compact/before",
    "compact/before2",
    "groups/data",
    *(f"kraft/{path.name}" for path in sorted((GOLDEN / "kraft").iterdir()) if path.name != "expected"),
    "legacy/data",
    "tiered/data",
    "tiered/remote",
    "txn/data",
    "txn/data-tv0",
    "unclean/crashed",
    "unclean/recovered",
)
ENTRY_BYTES = {".index": 8, ".timeindex": 12, ".txnindex": 34}
SNAPSHOT_HEADER_BYTES, SNAPSHOT_ENTRY_BYTES = 10, 46

# damage that no reader can find, with the reason
UNSEEN = {
    "compressed-flip-snappy": "the flipped byte is a literal inside a value, and snappy has no checksum",
    "compressed-flip-zstd": "the flipped byte is a literal inside a value, and the frame has no checksum",
    "index-length-not-multiple": "the golden file holds whole entries only: its bytes are those of index-intact",
}

# legal in some logs, so only a note: what a crash or a large index interval leaves
NOTES = {
    "index-cut-mid-entry",  # the golden file has whole entries only, without the last one
    "index-zero-filled",
    "timeindex-zero-filled",
}


def verify(*paths: Path) -> list[Finding]:
    verification = Verification(list(paths))
    findings = list(verification.findings())
    assert not verification.unreadable
    return findings


def loud(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity != "info"]


def expected_position(damaged: Json) -> int | None:
    """Return batch_position, or the begin of the entry that has `byte`."""
    if damaged.get("batch_position") is not None or damaged["byte"] is None:
        position: int | None = damaged.get("batch_position")
        return position
    byte, suffix = int(damaged["byte"]), Path(damaged["file"]).suffix
    if suffix == ".snapshot":
        in_entries = byte - SNAPSHOT_HEADER_BYTES
        return 0 if in_entries < 0 else byte - in_entries % SNAPSHOT_ENTRY_BYTES
    return byte - byte % ENTRY_BYTES[suffix] if suffix in ENTRY_BYTES else byte


def is_intact(case: Json) -> bool:
    return (
        case["expect"].get("detectable_by", "").startswith("nothing") or "nothing is wrong" in case["damaged"]["what"]
    )


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    case = CASES[name]
    damaged, expect = case["damaged"], case["expect"]
    findings = verify(GOLDEN / "corrupt" / "cases" / name)
    position = expected_position(damaged)
    if is_intact(case):
        severities = {finding.severity for finding in loud(findings)}
        assert severities == ({"warning"} if name == "leader-epoch-changed" else set())
        if name != "leader-epoch-changed":
            return
    if name in UNSEEN:
        assert not loud(findings)
        return
    at = [
        finding
        for finding in findings
        if Path(finding.path).name == damaged["file"] and (position is None or finding.position == position)
    ]
    assert at
    assert any(finding.severity != "info" for finding in at) == (name not in NOTES)
    for field in ("valid_batches_before", "valid_bytes_before"):
        if field in expect:
            assert {getattr(finding, field) for finding in at} == {expect[field]}
    assert all(finding.action for finding in findings)


@pytest.mark.parametrize("name", DIR_CASES)
def test_dir_case(name: str) -> None:
    findings = verify(GOLDEN / "corrupt" / "cases-dir" / name)
    assert [Path(finding.path).name for finding in findings] == [DIR_CASES[name]["file"]]
    if DIR_CASES[name]["broker"].startswith("refuses"):
        assert findings[0].severity == "error"


@pytest.mark.parametrize("name", GOOD)
def test_good_directory(name: str) -> None:
    assert loud(verify(GOLDEN / name)) == []


def test_every_file_of_a_good_directory_alone() -> None:
    for path in sorted((GOLDEN / "txn" / "data").rglob("*")):
        if path.is_file():
            assert loud(verify(path)) == [], path


def copied(name: str, to: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / name, to / Path(name).name, copy_function=shutil.copyfile))


@pytest.mark.parametrize(("suffix", "size"), ENTRY_BYTES.items())
def test_index_length_is_no_multiple(tmp_path: Path, suffix: str, size: int) -> None:
    """The golden cases of that name have such indexes; kafka-dump-log trims them by itself."""
    for extra in (1, size - 1):
        directory = copied("corrupt/cases/snapshot-intact", tmp_path / f"{suffix}{extra}")
        index = next(directory.glob(f"*{suffix}"))
        whole = index.stat().st_size
        index.write_bytes(index.read_bytes() + bytes(extra))
        (finding,) = loud(verify(directory))
        assert (finding.kind, finding.position, finding.length) == (f"{suffix[1:]}-length", whole, extra)
        index.write_bytes(index.read_bytes()[: whole - extra])
        assert whole - size in {finding.position for finding in loud(verify(directory))}


def test_damage_says_what_is_sound_around_it() -> None:
    (finding,) = loud(verify(GOLDEN / "corrupt" / "cases" / "crc-field-flip"))
    assert finding.to_dict() | {"path": "", "action": ""} == {
        "path": "",
        "kind": "batch-crc",
        "severity": "error",
        "position": 6059,
        "offset": 38,
        "length": 340,
        "expected": "CRC 0xa4c2ed08, as stored",
        "found": "the bytes give 0xa4caed08",
        "action": "",
        "valid_batches_before": 5,
        "valid_bytes_before": 6059,
        "valid_batches_behind": 3,
        "valid_bytes_behind": 1196,
        "next_valid_position": 6399,
        "lost_first_offset": None,
        "lost_last_offset": None,
        "command": finding.command,
        "consequences": {},
        "refuses_start": False,
    }


def test_flips_of_every_byte_of_a_batch_are_found(tmp_path: Path) -> None:
    """The CRC covers all bytes except base offset and leader epoch, which the structure determines."""
    path = tmp_path / "00000000000000000000.log"
    data = (GOLDEN / "corrupt" / "cases" / "control-intact" / path.name).read_bytes()
    start, stop = 4721, 4894
    for byte in range(start, stop):
        damaged = bytearray(data)
        damaged[byte] ^= 1 << byte % 8
        path.write_bytes(damaged)
        findings = verify(path)
        if not start + 12 <= byte < start + 16:
            assert start in {finding.position for finding in findings}, byte


def test_truncation_at_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000074.log"
    data = (GOLDEN / "corrupt" / "cases" / "control-intact-snappy" / path.name).read_bytes()
    boundaries = {0, *(finding_end for finding_end in batch_ends(data))}
    for size in range(len(data)):
        path.write_bytes(data[:size])
        findings = loud(verify(path))
        if size in boundaries:
            assert findings == []
        else:
            (finding,) = findings
            assert (finding.kind, finding.position) == ("truncated", max(end for end in boundaries if end < size))


def batch_ends(data: bytes) -> list[int]:
    ends, at = [], 0
    while at < len(data):
        at += 12 + int.from_bytes(data[at + 8 : at + 12])
        ends.append(at)
    return ends


def test_leftovers_are_named(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    for state in ("delete", "future", "stray"):
        copied("corrupt/cases/index-intact", root).rename(root / f"t-0.82a778a9cb694b41879c54d505d0564c-{state}")
    (root / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    (root / "notes.txt").write_text("x")
    found = Counter((finding.kind, finding.severity) for finding in verify(root))
    assert found == {
        ("leftover-directory", "info"): 2,
        ("leftover-directory", "warning"): 1,
        ("unknown-file", "info"): 1,
    }


def test_checkpoints_beside_the_logs(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    copied("corrupt/cases/index-intact", root).rename(root / "orders-0")
    (root / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    (root / "orders-0" / "partition.metadata").write_text("version: 0\ntopic_id: 82a778a9cb694b41879c54")
    (root / "orders-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    for name, offset, kinds in (
        ("recovery-point-offset-checkpoint", 47, []),
        ("recovery-point-offset-checkpoint", 48, ["log-end"]),
        ("replication-offset-checkpoint", 99, ["log-end"]),
        ("log-start-offset-checkpoint", -1, ["checkpoint-negative"]),
        ("cleaner-offset-checkpoint", 0, []),
    ):
        (root / name).write_text(f"0\n1\norders 0 {offset}\n")
        assert [finding.kind for finding in loud(verify(root))] == kinds
        (root / name).unlink()
    (root / "recovery-point-offset-checkpoint").write_text("0\n2\norders 0 1\ngone 3 9\n")
    found = {finding.kind for finding in verify(root)}
    assert found == {"checkpoint-absent", "unclean-shutdown", "metadata-log-absent"}


def test_segments_that_overlap(tmp_path: Path) -> None:
    first = GOLDEN / "corrupt" / "cases" / "control-intact" / "00000000000000000000.log"
    data = first.read_bytes()
    (tmp_path / first.name).write_bytes(data)
    (tmp_path / "00000000000000000038.log").write_bytes(data[6059:])
    findings = loud(verify(tmp_path))
    (finding,) = findings
    assert (finding.kind, finding.position) == ("offsets-overlap", 6059)
    assert finding.consequences == {"offsets-overlap": len(batch_ends(data[6059:])) - 1}


def test_unreadable_inputs_are_told_and_the_rest_verified(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.log").write_bytes(b"")
    odd = tmp_path / "notes.txt"
    odd.write_text("x")
    empty = tmp_path / "empty"
    empty.mkdir()
    verification = Verification([tmp_path / "absent", odd, empty, tmp_path / "00000000000000000000.log"])
    assert list(verification.findings()) == []
    assert verification.files == 1
    assert [error.reason for error in verification.unreadable] == [
        "No such file or directory",
        "not named like any file that Kafka writes",
        "no file in it that Kafka writes",
    ]


def test_every_kind_is_in_the_man_page() -> None:
    page = (Path(__file__).parents[2] / "man" / "kcli-verify.1").read_text()
    kinds = {finding.kind for finding in verify(GOLDEN / "corrupt")} | {
        finding.kind for finding in verify(GOLDEN / "kraft")
    }
    assert [kind for kind in sorted(kinds) if kind not in page] == []
