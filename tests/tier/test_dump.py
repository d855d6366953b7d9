"""kcli dump-segment on objects of a tier in a bucket: what it shows of the same file on this machine."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from kcli.errors import UnreadableInput
from kcli.inspector.inputs import path_of
from kcli.inspector.kafka_options import Notes
from kcli.inspector.kafka_text import dump_file
from tests.cli.run import Ended, kcli
from tests.conftest import GOLDEN, dump_runs, files_below
from tests.inspector.test_kafka_text import options_of
from tests.tier.conftest import REMOTE
from tests.tier.s3 import Proxy, client
from tests.tier.stores import SHORT
from tests.tier.test_bucket_commands import after, denied

URL = "s3://golden/a/tier/kafka-tiered-storage"
HOME = REMOTE / "kafka-tiered-storage"
SEGMENT = f"{SHORT}/00000000000000000172-l01z3OR1TKOmUnXyuuLKWQ"
LARGE = f"s3://scratch/large/{SHORT}/{0:020}-l01z3OR1TKOmUnXyuuLKWQ"


def dump(*arguments: str | Path) -> Ended:
    return kcli("dump-segment", *arguments)


def without_time(text: str) -> str:
    return re.sub(r"  \d+\.\d\d s$", "", text, flags=re.MULTILINE)


def assert_same(url: str, path: Path, *options: str) -> Ended:
    """Assert that a dump of the URL shows what one of the path does. Returns it."""
    found, expected = dump(url, *options), dump(path, *options)
    assert without_time(found.stdout) == without_time(expected.stdout).replace(str(path), url)
    told = expected.stderr.replace(str(path.parent), url.rpartition("/")[0])
    assert found.stderr == told.replace("No such file or directory", "no such object")
    assert found.status == expected.status
    return found


def test_every_saved_run_of_kafkas_tool(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN / "tiered")
    compared = 0
    for run in dump_runs("tiered"):
        if not run["file"].startswith("remote/"):
            continue
        url = run["file"].replace("remote/", "s3://golden/a/tier/")
        text: list[bytes] = []
        with suppress(UnreadableInput):
            dump_file(path_of(url), options_of(run["flags"]), lambda part: text.append(bytes(part)), Notes())  # noqa: B023
        expected = run["stdout"].replace(run["file"], url)
        printed = b"".join(text).decode(errors="replace")
        assert printed == expected if run["exit"] == 0 else printed.startswith(expected), (url, run["flags"])
        compared += 1
    assert compared == 93


@pytest.mark.parametrize("style", ["table", "jsonl", "kafka"])
def test_each_kind_of_object(s3: str, style: str) -> None:
    for name in files_below(HOME):
        if name.startswith(SHORT):
            assert assert_same(f"{URL}/{name}", HOME / name, "--format", style).status == 0


@pytest.mark.parametrize("options", [["--from-offset", "210"], ["--from-time", "1700003000000"], ["--limit", "3"]])
def test_filters(s3: str, options: list[str]) -> None:
    for style in ("table", "jsonl", "kafka"):
        found = assert_same(f"{URL}/{SEGMENT}.log", HOME / f"{SEGMENT}.log", "--format", style, *options)
        assert found.stdout.count("\n") > 2


@pytest.mark.parametrize("type_", [None, "index", "txnindex", "leader-epoch-checkpoint"])
def test_directories(s3: str, type_: str | None) -> None:
    """A partition's objects, and a tier's, in the order of partitions and offsets."""
    options = [] if type_ is None else ["--type", type_]
    assert_same(f"{URL}/{SHORT}", HOME / SHORT, *options)
    for url in (URL, "s3://golden/a/tier"):
        found, expected = dump(url, *options), dump(HOME, *options)
        assert without_time(found.stdout) == without_time(expected.stdout).replace(str(HOME), URL)
        assert (found.stderr, found.status) == ("", 0)
    assert without_time(dump(REMOTE, *options).stdout) == without_time(dump(HOME, *options).stdout)


@pytest.mark.parametrize("damage", ["cut", "flip", "no log", "no index"])
def test_damage(s3: str, damage: str, tmp_path: Path) -> None:
    """The same findings, in the same words, with the same exit status."""
    home, url, s3_client = (
        tmp_path / damage.replace(" ", "-") / SHORT,
        f"s3://scratch/{damage[-4:].strip()}/{SHORT}",
        client(s3),
    )
    home.mkdir(parents=True)
    stem = SEGMENT.rpartition("/")[2]
    for path in sorted((HOME / SHORT).glob(f"{stem}.*")):
        data = bytearray(path.read_bytes())
        if damage == "cut":
            data = data[: len(data) * 2 // 3 + 1]
        elif damage == "flip":
            data[len(data) // 2] ^= 0x40
        elif path.suffix == damage.replace("no ", "."):
            continue
        (home / path.name).write_bytes(data)
        key = f"{url.removeprefix('s3://scratch/')}/{path.name}"
        s3_client.put_object(Bucket="scratch", Key=key, Body=bytes(data))
    statuses = {
        assert_same(f"{url}/{path.name}", home / path.name, "--format", style).status
        for path in sorted(home.iterdir())
        for style in ("table", "jsonl", "kafka")
    }
    assert statuses == {0, 1}


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (f"{URL}/{SEGMENT[:-1]}X.log", "no such object"),
        (f"{URL}/{SHORT}/notes.txt", "no such object, and none below it"),
        (f"{URL}/x-0", "no such object, and none below it"),
        ("s3://golden/a", "no log object below this URL"),
        (
            "s3://golden/00000000000000000000.log",
            "an object's URL ends with a partition's directory and the object's name",
        ),
        ("s3://nothing/a", "no such bucket (NoSuchBucket); check its name, AWS_ENDPOINT_URL, AWS_REGION"),
    ],
)
def test_what_is_not_there(s3: str, url: str, text: str) -> None:
    ended = dump(url)
    assert (ended.status, ended.stdout, ended.complaint) == (2, "", f"kcli: {url}: {text}")


@pytest.mark.parametrize("url", ["ftp://golden/x", "s3://k:s3cr3t@golden/x"])
def test_what_is_no_url_of_a_bucket(url: str) -> None:
    ended = dump(url)
    assert (ended.status, ended.stdout) == (2, "")
    assert ended.complaint.startswith("kcli: dump-segment: ")
    assert "s3cr3t" not in ended.stderr


def test_a_name_that_does_not_tell_the_type(s3: str) -> None:
    key, body = f"odd/{SHORT}/entries", (HOME / f"{SEGMENT}.txnindex").read_bytes()
    client(s3).put_object(Bucket="scratch", Key=key, Body=body)
    url = f"s3://scratch/{key}"
    assert "give --type" in dump(url).complaint
    shown = dump(url, "--type", "txnindex").stdout
    assert shown.replace(url, "x") == dump(HOME / f"{SEGMENT}.txnindex").stdout.replace(
        str(HOME / f"{SEGMENT}.txnindex"), "x"
    )


def test_a_file_by_its_url() -> None:
    path = HOME / f"{SEGMENT}.log"
    assert without_time(dump(f"file://{path.resolve()}").stdout) == without_time(dump(path.resolve()).stdout)


# what is fetched


def large(s3: str) -> None:
    """An object of 20 MB: a segment's batches, again and again."""
    body = (HOME / f"{SEGMENT}.log").read_bytes() * 1700
    client(s3).put_object(Bucket="scratch", Key=f"{LARGE.removeprefix('s3://scratch/')}.log", Body=body)


def ranges(proxy: Proxy) -> list[tuple[int, int]]:
    """The ranges of bytes that were asked for."""
    found = [re.search(rb"(?i)\r\nrange: bytes=(\d+)-(\d+)", each) for each in proxy.seen]
    return [(int(each[1]), int(each[2])) for each in found if each]


def test_windows(proxy: Proxy) -> None:
    """An object is read in windows of 4 MB at most, and no further than what is shown."""
    large(proxy.endpoint)
    proxy.seen.clear()
    assert dump(f"{LARGE}.log", "--limit", "2").status == 0
    assert max(last for _, last in ranges(proxy)) < 8 << 20
    proxy.seen.clear()
    assert "  CRC ok  " in dump(f"{LARGE}.log", "--batches-only").stdout
    asked = ranges(proxy)
    assert max(last - first + 1 for first, last in asked) <= 4 << 20
    assert len(asked) < 15
    assert [first for first, _ in asked[1:]] == [last + 1 for _, last in asked[:-1]]


@pytest.mark.parametrize("requests", [0, 1, 2, 5])
def test_a_bucket_that_is_lost(proxy: Proxy, requests: int) -> None:
    """What fails for each object is told once."""
    proxy.fault = after(proxy, requests, denied)
    ended = dump(f"{URL}/{SHORT}")
    assert ended.status == 2
    assert ended.complaint.startswith(f"kcli: {URL}")
    assert "access denied (AccessDenied)" in ended.stderr
    assert len(proxy.seen) <= requests + 2


def test_an_index_whose_bucket_is_lost(proxy: Proxy) -> None:
    """No log that cannot be read is taken for one that is not there."""
    proxy.fault = after(proxy, 1, denied)
    for suffix in ("index", "timeindex"):
        proxy.seen.clear()
        assert dump(f"{URL}/{SEGMENT}.{suffix}", "--format", "kafka").status == 2


def test_no_import_of_what_is_not_asked_for() -> None:
    """A dump of a file imports no client of buckets."""
    code = (
        "import sys; from kcli.inspector.inputs import path_of; from kcli.cli import dump; "
        "assert 'obstore' not in sys.modules and 'kcli.tier.bucket' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
