"""A .log file that somebody has replaced by a text of its bytes: verify says what it is, recover too, and both the
command and salvage make the log of it again."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.run import kcli
from tests.cli.test_recover_special_files import about, crashed, rows
from tests.inspector.test_verify_causes import PARTITION, directory, logs, loud

__all__ = ["directory"]  # a fixture


def xxd(data: bytes) -> bytes:
    return subprocess.run(["xxd"], check=True, input=data, capture_output=True).stdout


@pytest.mark.parametrize("number", [0, -1])
@pytest.mark.parametrize(("write", "program"), [(base64.encodebytes, "base64"), (xxd, "xxd")])
def test_a_text_of_a_log(directory: Path, tmp_path: Path, number: int, write, program: str) -> None:  # type: ignore[no-untyped-def]
    crashed(directory)
    log = logs(directory)[number]
    whole = log.read_bytes()
    log.write_bytes(write(whole))
    (finding,) = [each for each in loud(directory) if each.severity == "error"]
    assert finding.kind == "log-compressed"
    assert f"a text of the log's bytes, as {program} writes it: it decodes to batches" in str(finding.found)
    (told,) = [row for row in about(rows(directory), "passed-over") if program in row["reason"]]
    assert log.name in (told["file"], *told["reason"].replace(",", "").split())
    ended = kcli("recover", "--salvage", "--out", tmp_path / "new", "--format", "jsonl", directory)
    assert ended.status == 0, [json.loads(line) for line in ended.stdout.splitlines()]
    assert (tmp_path / "new" / PARTITION / log.name).read_bytes() == whole
    assert finding.command is not None
    subprocess.run(finding.command, shell=True, check=True)
    assert log.read_bytes() == whole


@pytest.mark.parametrize(
    ("content", "what"), [(b"PK\x03\x04" + bytes(500), "a zip"), (b"<!DOCTYPE html>\n" * 9, "a page in HTML")]
)
def test_what_lies_in_a_logs_place(directory: Path, content: bytes, what: str) -> None:
    logs(directory)[0].write_bytes(content)
    (finding,) = [each for each in loud(directory) if each.kind == "foreign-bytes"]
    assert f"they are those of {what}" in str(finding.found)


def test_a_tar_in_a_logs_place(directory: Path, tmp_path: Path) -> None:
    """Its header is no batch; salvage keeps what follows."""
    log = logs(directory)[0]
    whole = log.read_bytes()
    subprocess.run(["tar", "cf", tmp_path / "log.tar", log.name], cwd=log.parent, check=True)
    log.write_bytes((tmp_path / "log.tar").read_bytes())
    findings = [each for each in loud(directory) if each.path == str(log)]
    assert any("they are those of a tar" in str(each.found) for each in findings)
    kcli("recover", "--salvage", "--unclean", "--out", tmp_path / "new", directory)
    assert (tmp_path / "new" / PARTITION / log.name).read_bytes() == whole


def test_a_log_that_went_through_a_string(directory: Path) -> None:
    log = max(logs(directory), key=lambda each: each.stat().st_size)
    log.write_bytes(log.read_bytes().decode(errors="replace").encode())
    findings = [each for each in loud(directory) if each.path == str(log)]
    assert any("times EF BF BD, as where a program has read the file as UTF-8" in str(each.found) for each in findings)


def test_a_log_without_its_nuls(directory: Path) -> None:
    log = max(logs(directory), key=lambda each: each.stat().st_size)
    log.write_bytes(log.read_bytes().replace(b"\0", b""))
    findings = [each for each in loud(directory) if each.path == str(log)]
    assert any("they have no NUL, as after tr -d" in str(each.found) for each in findings), findings
