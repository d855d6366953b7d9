"""Hostile bytes: verify ends, reports them as findings, and stays within its memory."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from kcli.inspector.verify import Verification
from tests.conftest import GOLDEN

KCLI = [sys.executable, "-m", "kcli"]
BOMBS = sorted(path for path in (GOLDEN / "corrupt" / "cases").iterdir() if path.name.startswith("bomb-"))
MEMORY_BYTES = 300 << 20

NAMES = (
    "00000000000000000000.log",
    "00000000000000000000.index",
    "00000000000000000000.timeindex",
    "00000000000000000000.txnindex",
    "00000000000000000007.snapshot",
    "00000000000000000007-0000000001.checkpoint",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "quorum-state",
    "meta.properties",
    "recovery-point-offset-checkpoint",
)


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_under_every_name(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    for name in NAMES:
        (tmp_path / name).write_bytes(source.randbytes(source.randrange(1, 3000)))
    verification = Verification([tmp_path])
    errors = [finding for finding in verification.findings() if finding.severity == "error"]
    found = {Path(finding.path).name for finding in errors}
    if any(kind.startswith("txnindex-") for finding in errors for kind in finding.consequences):
        found.add(f"{0:020}.txnindex")  # all its entries can follow from the damage of the log
    assert found >= {name for name in NAMES if name != "meta.properties"}
    assert not verification.unreadable


@pytest.mark.parametrize("seed", range(8))
def test_flips_in_a_whole_partition(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    for name in ("txn/data/t-txn-0", "compact/after2/c-txn-default-0", "kraft/controller-100/__cluster_metadata-0"):
        for path in (GOLDEN / name).iterdir():
            data = bytearray(path.read_bytes())
            for _ in range(source.randrange(4)):
                if data:
                    data[source.randrange(len(data))] ^= 1 << source.randrange(8)
            (tmp_path / path.name).write_bytes(data)
        verification = Verification([tmp_path])
        list(verification.findings())
        assert not verification.unreadable


def test_findings_of_one_file_are_bounded(tmp_path: Path) -> None:
    """The file has 200,000 smallest batches of magic 0, none with a correct CRC: the first 10,000 are listed, the rest
    counted."""
    message = (0).to_bytes(8) + (14).to_bytes(4) + bytes(4) + bytes(2) + b"\xff" * 8
    (tmp_path / "00000000000000000000.log").write_bytes(message * 200_000)
    findings = [finding for finding in Verification([tmp_path]).findings() if finding.severity == "error"]
    assert len(findings) <= 10_001


@pytest.mark.parametrize("case", BOMBS, ids=lambda path: path.name)
def test_bombs_stay_below_300_mb(case: Path) -> None:
    script = (
        "import re, sys; from pathlib import Path; from kcli.inspector.verify import Verification\n"
        "findings = Verification([Path(sys.argv[1])]).findings()\n"
        "found = [finding.kind for finding in findings if finding.severity == 'error']\n"
        # ru_maxrss would begin with the memory of the process that forked
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]) * 1024, *found)"
    )
    done = subprocess.run([sys.executable, "-c", script, case], capture_output=True, text=True, check=True)
    memory, *kinds = done.stdout.split()
    assert int(memory) < MEMORY_BYTES
    assert kinds in (["decompression"], ["record-structure"], ["record-count"])


@pytest.mark.parametrize("name", ["00000000000000000000", "09223372036854775807", "09223372036854775000"])
def test_highest_base_offset(tmp_path: Path, name: str) -> None:
    """A batch at 2^63 - 1, in a file of that name and in others, alone and behind sound batches."""
    data = (GOLDEN / "corrupt" / "cases" / "index-intact" / "00000000000000000000.log").read_bytes()
    batch = (2**63 - 1).to_bytes(8) + data[8 : 12 + int.from_bytes(data[8:12])]
    log = tmp_path / f"{name}.log"
    log.with_suffix(".index").write_bytes(bytes(8))
    for before in (b"", data):
        log.write_bytes(before + batch)
        for path in (tmp_path, log):
            assert any(finding.severity == "error" for finding in Verification([path]).findings())


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*KCLI, "verify", *arguments], capture_output=True, text=True, check=False)


def test_exit_status_and_streams(tmp_path: Path) -> None:
    cases = GOLDEN / "corrupt" / "cases"
    sound = run("--format", "jsonl", cases / "index-intact")
    assert (sound.returncode, sound.stdout, sound.stderr) == (0, "", "")
    note = run("--format", "jsonl", cases / "index-zero-filled")
    assert (note.returncode, note.stderr) == (0, "")
    assert {json.loads(line)["severity"] for line in note.stdout.splitlines()} == {"info"}
    bad = run("--format", "jsonl", cases / "crc-field-flip")
    assert (bad.returncode, bad.stderr) == (1, "")
    assert next(json.loads(line)["kind"] for line in bad.stdout.splitlines()) == "batch-crc"
    missing = run(tmp_path / "absent")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr == f"kcli: {tmp_path / 'absent'}: No such file or directory\n"
    assert run().returncode == 2


def test_table() -> None:
    shown = run(GOLDEN / "corrupt" / "cases" / "index-position-mid-batch")
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("error   index-position  ")
    assert "00000000000000000000.index  byte 16  offset 37  offset 37, position 4,899; expected " in lines[0]
    assert lines[2].startswith("        Next: ")
    assert lines[-1].startswith("1 error in 3 files, 7.7 kB, ")


def test_a_closed_pipe_ends_it_quietly() -> None:
    command = f"'{sys.executable}' -m kcli verify '{GOLDEN / 'corrupt'}' | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1
