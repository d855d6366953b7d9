"""Names that are not UTF-8, which Linux permits: paths may have them, names that go to Kafka or into a table may not.

Whatever a command does with one: a result or one line, never a traceback, and JSON is UTF-8.
"""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.cli.run import kcli
from tests.conftest import SAMPLES

NOT_UTF8 = os.fsdecode(b"\xff\xe9")
NOBODY = ["-b", "127.0.0.1:1", "--timeout", "0.2"]
TEXTS = {
    "topic": ["produce", f"t{NOT_UTF8}", *NOBODY],
    "topics": ["consume", f"t{NOT_UTF8}", *NOBODY],
    "described": ["topics", "describe", NOT_UTF8, *NOBODY],
    "config": ["topics", "create", "t", "--config", f"a={NOT_UTF8}", *NOBODY],
    "bootstrap": ["topics", "list", "-b", f"127.0.0.1{NOT_UTF8}", "--timeout", "0.2"],
    "property": ["topics", "list", "-X", f"client.id={NOT_UTF8}", *NOBODY],
    "group": ["groups", "members", "--group", NOT_UTF8, *NOBODY],
    "transactional": ["transactions", "describe", NOT_UTF8, *NOBODY],
    "format": ["consume", "t", "--template", NOT_UTF8, *NOBODY],
    "delimiter": ["produce", "t", "-D", NOT_UTF8, *NOBODY],
    "header": ["produce", "t", "-H", f"{NOT_UTF8}=1", *NOBODY],
    "listen": ["serve", "--listen", NOT_UTF8, "--data-dir", "new"],
    "cluster-id": ["format", "-t", NOT_UTF8, "-c", "/dev/null"],
    "exported-topic": ["export-to-parquet", "c-plain-0", "--topic", NOT_UTF8, "--out", "new"],
    "source": ["export-to-parquet", f"{NOT_UTF8}-0", "--out", "new"],
    "out": ["export-to-parquet", "c-plain-0", "--out", NOT_UTF8],
    "state": ["export-to-parquet", "c-plain-0", "--out", "new", "--incremental", NOT_UTF8],
    "check": ["export-to-parquet", "--check", NOT_UTF8],
    "import": ["import-from-parquet", NOT_UTF8, "--out", "new"],
    "pipe": ["pipe", f"log:{NOT_UTF8}/c-plain", "delta:new"],
    "pipe-checkpoint": ["pipe", "delta:x", "kafka://127.0.0.1:1/t", "--checkpoint", NOT_UTF8],
}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return a log directory with a partition whose name is not UTF-8, below a directory of such a name."""
    home = tmp_path / NOT_UTF8
    home.mkdir()
    shutil.copytree(SAMPLES / "good" / "c-plain-0", home / "c-plain-0")
    shutil.copytree(SAMPLES / "good" / "c-plain-0", home / f"{NOT_UTF8}-0")
    return home


@pytest.mark.parametrize("arguments", TEXTS.values(), ids=list(TEXTS))
def test_names_that_no_broker_and_no_table_can_have(arguments: list[str], logs: Path) -> None:
    ended = kcli(*arguments, cwd=logs)
    assert (ended.stdout, ended.status) == ("", 2), ended.stderr
    assert "Traceback" not in ended.stderr
    assert "is not UTF-8" in ended.stderr
    assert not (logs / "new").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify", "--severity", "info"],
        ["recover", "--unclean"],
        ["recover", "--unclean", "--out", f"../new{NOT_UTF8}-0"],
        ["compact", "-o", "cleanup.policy=compact"],
        ["dump-segment"],
    ],
    ids=" ".join,
)
def test_paths_may_be_of_any_bytes(arguments: list[str], logs: Path) -> None:
    for path in (logs, logs / f"{NOT_UTF8}-0"):
        for output in ("table", "jsonl"):
            shutil.rmtree(logs.with_name(f"new{NOT_UTF8}-0"), ignore_errors=True)
            ended = kcli(*arguments, "--format", output, str(path), cwd=logs)
            assert "Traceback" not in ended.stderr
            assert ended.status in {0, 1}, ended.stderr
            if output == "jsonl":
                for line in ended.stdout.splitlines():
                    line.encode()
                    json.loads(line)


def test_a_json_line_tells_the_very_name(logs: Path) -> None:
    ended = kcli("recover", "--unclean", "--format", "jsonl", str(logs / f"{NOT_UTF8}-0"))
    assert json.loads(ended.stdout.splitlines()[0])["partition"] == f"{NOT_UTF8}-0"


def test_keys_and_values_of_headers_may_be_of_any_bytes(logs: Path) -> None:
    assert kcli("dump-segment", "--key", NOT_UTF8, str(logs / "c-plain-0")).status == 0
    sent = kcli("produce", "t", "-H", f"name={NOT_UTF8}", "--key", NOT_UTF8, *NOBODY, text="")
    assert "no broker answers" in sent.stderr


def test_an_export_names_the_directory_that_no_table_can_name(logs: Path) -> None:
    """The export finds the directory below the source, and writes nothing; other topics of the directory can be
    exported."""
    plain = logs.with_name("plain")
    logs.rename(plain)
    ended = kcli("export-to-parquet", "plain", "--out", "new", cwd=plain.parent, timeout=120)
    assert (ended.stdout, ended.status) == ("", 2), ended.stderr
    assert "-0: the path is not UTF-8" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert [each.name for each in plain.parent.iterdir()] == ["plain"]
    ended = kcli("export-to-parquet", "plain", "--topic", "c-plain", "--out", "new", cwd=plain.parent, timeout=120)
    assert ended.status == 0, ended.stderr
