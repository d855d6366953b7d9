"""kcli tier on a bucket: the same as on the directory that it is a copy of; and one line where it cannot be read."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import boto3
import pytest

from kcli.inspector.verify import bucket_commands
from tests.cli.run import KCLI, Ended, kcli
from tests.conftest import files_below
from tests.tier.conftest import REMOTE
from tests.tier.records import uuid
from tests.tier.s3 import Fault, Proxy, Reply, client, http, pass_on, s3_error
from tests.tier.stores import SHORT, TIERED, Copy

DATA = TIERED / "data"
GOLDEN_URL = "s3://golden/a/tier"
INSIDE = f"{GOLDEN_URL}/kafka-tiered-storage"


@pytest.fixture(autouse=True)
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files."""
    path = tmp_path / "spool"
    path.mkdir()
    monkeypatch.setenv("TMPDIR", str(path))
    return path


def tier(command: str, *arguments: str | Path, url: str | Path = GOLDEN_URL) -> Ended:
    return kcli("tier", command, *arguments, "--tier", url)


def rows(ended: Ended) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.parametrize("where", [[DATA], []])
@pytest.mark.parametrize("command", ["list", "verify"])
def test_the_same_as_the_directory(s3: str, command: str, where: list[Path], spool: Path) -> None:
    found, expected = tier(command, *where), tier(command, *where, url=REMOTE)
    assert (found.status, found.stderr) == (0, "")
    if command == "list":
        assert found.stdout == expected.stdout
    assert found.stdout.split(",")[0] == expected.stdout.split(",")[0]
    assert list(spool.iterdir()) == []


def test_verify_takes_tiers(s3: str, spool: Path) -> None:
    """kcli verify URL, and kcli verify LOG_DIR --tier URL, are kcli tier verify."""
    for arguments, where in (([GOLDEN_URL], []), ([DATA, "--tier", GOLDEN_URL], [DATA])):
        found, same = kcli("verify", *arguments), tier("verify", *where)
        assert (found.status, found.stderr) == (0, "")
        assert found.stdout.split(",")[0] == same.stdout.split(",")[0]
    assert list(spool.iterdir()) == []
    for wrong in (
        [DATA, GOLDEN_URL],
        [GOLDEN_URL, "--tier", GOLDEN_URL],
        [DATA, DATA, "--tier", GOLDEN_URL],
    ):
        ended = kcli("verify", *wrong)
        assert (ended.status, ended.stdout) == (2, "")
        assert ended.complaint.startswith("kcli: a tier is checked alone: kcli verify URL, or ")


def test_verify_takes_a_partition(s3: str, spool: Path, tmp_path: Path) -> None:
    """Its directory in a tier, by path or URL: the same findings, of that partition alone."""
    copy = Copy.of_golden(tmp_path)
    home = copy.remote / "kafka-tiered-storage" / SHORT
    assert kcli("verify", home).stdout.startswith("sound in 38 files, ")
    assert kcli("verify", f"{INSIDE}/{SHORT}").stdout.startswith("sound in 38 files, ")
    for path in home.glob(f"{86:020}-*"):
        path.unlink()
    for where in (home, home.parent, copy.remote, f"file://{copy.remote}"):
        ended = kcli("verify", where)
        assert (ended.status, ended.stderr) == (1, "")
        assert ended.stdout.startswith(f"error   tier-gap  {home}  offset 86  ")
    for path in sorted(home.iterdir()):
        key = f"partition/{SHORT}/{path.name}"
        client(s3).put_object(Bucket="scratch", Key=key, Body=path.read_bytes())
    ended = kcli("verify", f"s3://scratch/partition/{SHORT}")
    assert ended.stdout.startswith(f"error   tier-gap  s3://scratch/partition/{SHORT}  offset 86  ")
    assert list(spool.iterdir()) == []


def test_verify_of_nothing(s3: str) -> None:
    """No URL without objects is sound."""
    for url, text in (
        (f"{INSIDE}/{SHORT[:-1]}h", f"kcli: {INSIDE}/{SHORT[:-1]}h: no object is there"),
        (f"{INSIDE}/{SHORT}/{5:020}-Vx-P2JSwR3-v8HZOhqCuTw.log", "kcli: no object is checked alone: kcli verify URL "),
    ):
        ended = kcli("verify", url)
        assert (ended.status, ended.stdout) == (2, "")
        assert ended.complaint.startswith(text)


def test_no_orphans(s3: str) -> None:
    assert tier("orphans", DATA).stdout.startswith("sound in 114 files, ")


@pytest.mark.parametrize("where", [[DATA], []])
def test_fetch(s3: str, tmp_path: Path, where: list[Path], spool: Path) -> None:
    found = tier("fetch", *where, "--topic", "r-short", "--out", tmp_path / "one")
    expected = tier("fetch", *where, "--topic", "r-short", "--out", tmp_path / "two", url=REMOTE)
    assert (found.status, found.stderr) == (expected.status, "")
    assert found.stdout.replace("one", "two") == expected.stdout
    names = files_below(tmp_path / "one")
    assert names.keys() == files_below(tmp_path / "two").keys()
    assert all((tmp_path / "one" / each).read_bytes() == (tmp_path / "two" / each).read_bytes() for each in names)
    assert list(spool.iterdir()) == []


# damage


@pytest.fixture
def damaged(s3: str, tmp_path: Path) -> tuple[boto3.client, Path]:
    """golden/tiered, below `scratch/damaged` and in a directory, both with a missing, a cut and a flipped object, an
    orphan, and an object that is none."""
    s3_client, home = client(s3), tmp_path / "damaged/kafka-tiered-storage"
    shutil.copytree(REMOTE / "kafka-tiered-storage", home)
    (missing,) = (home / SHORT).glob(f"{5:020}-*.log")
    missing.unlink()
    (cut,) = (home / SHORT).glob(f"{172:020}-*.log")
    cut.write_bytes(cut.read_bytes()[:6000])
    (flipped,) = (home / SHORT.replace("short-0", "short-1")).glob(f"{3:020}-*.log")
    data = bytearray(flipped.read_bytes())
    data[5000] ^= 1
    flipped.write_bytes(data)
    for suffix in ("log", "index"):
        (home / SHORT / f"{300:020}-{uuid(1)}.{suffix}").write_bytes(b"x")
    (home / SHORT / "it's odd").write_bytes(b"x")
    for path in sorted(home.rglob("*")):
        if path.is_file():
            s3_client.put_object(
                Bucket="scratch", Key=f"damaged/{path.relative_to(home.parent)}", Body=path.read_bytes()
            )
    return s3_client, home


@pytest.mark.parametrize("command", ["verify", "orphans"])
def test_damage(damaged: tuple[boto3.client, Path], command: str) -> None:
    s3_client, home = damaged
    found = tier(command, DATA, "--format", "jsonl", url="s3://scratch/damaged")
    expected = tier(command, DATA, "--format", "jsonl", url=home)
    assert (found.status, found.stderr) == (expected.status, "") == (1, "")
    address = "s3://scratch/damaged/kafka-tiered-storage"
    commands = [row.pop("command", None) for row in rows(found)]
    same = [{**row, "path": row["path"].replace(str(home), address)} for row in rows(expected)]
    for row in same:
        row.pop("command", None)
    found_rows = rows(found)
    for row in found_rows:
        row.pop("command", None)
    assert found_rows == same
    assert str(home) not in found.stdout
    assert "spool" not in found.stdout
    if command == "orphans":
        (removal,) = (each for each in commands if each and " rm " in each)
        urls = [f"{address}/{SHORT}/{300:020}-{uuid(1)}.{suffix}" for suffix in ("log", "index")]
        assert removal == " && ".join(f"aws s3 rm {url}" for url in urls)
        assert f"aws s3 ls '{address}/{SHORT}/it'\"'\"'s odd'" in commands
        for url in urls:
            s3_client.delete_object(Bucket="scratch", Key=url.removeprefix("s3://scratch/"))
        assert "tier-orphan" not in tier(command, DATA, url="s3://scratch/damaged").stdout
    else:
        (crc,) = (row for row in found_rows if row["kind"] == "batch-crc")
        dump = commands[found_rows.index(crc)]
        assert dump == f"kcli dump-segment --from-offset {crc['offset']} --limit 20 {crc['path']}"
        assert "! " in kcli(*shlex.split(dump)[1:]).stdout
        again = [each for each in commands if each and "tier fetch" in each]
        assert shlex.split(again[0])[:6] == ["kcli", "tier", "fetch", str(DATA), "--tier", address]


def test_commands_of_each_service() -> None:
    assert (
        bucket_commands.remove(["gs://b/x y", "gs://b/z"])
        == "gcloud storage rm 'gs://b/x y' && gcloud storage rm gs://b/z"
    )
    assert bucket_commands.show("az://logs/p/x") == "az storage blob show --container-name logs --name p/x"
    assert bucket_commands.show("abfs://logs@acme.dfs.core.windows.net/tier/p/x.index") == (
        "az storage blob show --account-name acme --container-name logs --name tier/p/x.index"
    )


# what fails


def flipping(request: bytes, answer: object) -> Reply:
    """A server that changes a byte of each .log object."""
    assert callable(answer)
    reply = bytearray(answer())
    if b".log HTTP" in request.partition(b"\r\n")[0]:
        reply[-1] ^= 1
    yield bytes(reply)


def test_wrong_bytes(proxy: Proxy) -> None:
    proxy.fault = flipping
    ended = tier("verify", DATA, "--topic", "r-short")
    assert (ended.status, ended.stderr) == (1, "")
    assert ended.stdout.count("error   batch-crc  s3://golden/a/tier/") == 14


def denied(*_: object) -> Reply:
    yield s3_error("403 Forbidden", "AccessDenied")


def gone(*_: object) -> Reply:
    yield http("500 Internal Server Error")


def after(proxy: Proxy, count: int, fault: Fault) -> Fault:
    """A fault behind the first requests."""
    return lambda request, answer: fault(request, answer) if len(proxy.seen) > count else pass_on(request, answer)


@pytest.mark.parametrize("requests", [0, 2, 3, 8, 20])
@pytest.mark.parametrize("command", ["list", "verify", "orphans", "fetch"])
def test_denied_from_a_request_on(proxy: Proxy, tmp_path: Path, command: str, requests: int, spool: Path) -> None:
    proxy.fault = after(proxy, requests, denied)
    arguments: list[str | Path] = [DATA]
    if command == "fetch":
        arguments += ["--topic", "r-short", "--out", tmp_path / "new"]
    ended = tier(command, *arguments)
    if ended.status == 0:
        assert command in ("list", "orphans")
        return
    assert (ended.status, len(ended.stderr.splitlines())) == (2, 1)
    assert ended.stderr.startswith(f"kcli: {GOLDEN_URL}")
    assert "access denied (AccessDenied)" in ended.stderr
    assert len(proxy.seen) <= requests + 2
    assert sorted(each.name for each in tmp_path.iterdir()) == ["spool"]
    assert list(spool.iterdir()) == []


@pytest.mark.parametrize("command", ["list", "verify", "fetch"])
def test_denied_without_a_log_directory(proxy: Proxy, tmp_path: Path, command: str) -> None:
    """No object that cannot be read is taken for one that is not there."""
    proxy.fault = after(proxy, 3, denied)
    arguments: list[str | Path] = ["--topic", "r-short", "--out", tmp_path / "new"] if command == "fetch" else []
    ended = tier(command, *arguments)
    assert (ended.status, ended.stdout) == (2, "")
    assert "access denied" in ended.stderr


def test_a_server_that_is_lost(proxy: Proxy) -> None:
    proxy.fault = after(proxy, 10, gone)
    ended = tier("verify", DATA)
    assert (ended.status, ended.stderr.count("\n")) == (2, 1)
    assert "answers HTTP 500; it may be overloaded: try again later" in ended.stderr


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("s3://nothing/x", "s3://nothing/x: no such bucket (NoSuchBucket); check its name, AWS_ENDPOINT_URL"),
        ("s3://golden/nothing", "s3://golden/nothing: no object's name begins with this prefix"),
        ("s3://k:s3cr3t@golden/x", "--tier: a URL is s3://bucket/prefix, without user, password, port or query"),
        ("ftp://golden/x", "--tier: 'ftp' is no kind of store"),
    ],
)
def test_addresses_of_nothing(s3: str, url: str, text: str) -> None:
    for command in ("list", "verify"):
        ended = tier(command, DATA, url=url)
        assert (ended.status, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
        assert ended.stderr.startswith(f"kcli: {text}")
        assert "s3cr3t" not in ended.stderr


def test_a_directory_by_its_url(tmp_path: Path) -> None:
    assert tier("list", url=f"file://{REMOTE.resolve()}").stdout == tier("list", url=REMOTE).stdout


def waiting(*_: object) -> Reply:
    yield 30.0


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("requests", [0, 12])
def test_signals_end_a_wait(proxy: Proxy, spool: Path, number: int, status: int, requests: int) -> None:
    proxy.fault = after(proxy, requests, waiting)
    command = [*KCLI, "tier", "verify", str(DATA), "--tier", GOLDEN_URL]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while len(proxy.seen) <= requests:
            time.sleep(0.02)
        process.send_signal(number)
        process.communicate(timeout=20)  # before the server would answer
    assert process.returncode in (status, -number)
    assert list(spool.iterdir()) == []
