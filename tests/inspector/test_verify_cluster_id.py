"""A meta.properties without cluster.id: no other file of the log directory has the id."""

import re
import shlex
import subprocess
from pathlib import Path

from formats.file_name import FileKind
from kcli.inspector.verify import Finding
from kcli.log.log_directory import read_properties
from tests.cli.run import kcli
from tests.inspector.test_verify_causes import directory, loud
from tests.metadata_damage import copied

__all__ = ["directory"]  # a fixture


def cut(directory: Path) -> Path:
    """Cut the file as a full disk does: without the last line, and within the line before it."""
    path = directory / FileKind.META_PROPERTIES
    lines = [line for line in path.read_text().splitlines() if not line.startswith("cluster.id")]
    path.write_text("\n".join([*lines, "cluster.i"]))
    return path


def of_meta(directory: Path) -> Finding:
    (finding,) = (each for each in loud(directory) if each.kind == "meta-properties-content")
    assert finding.refuses_start
    return finding


def test_the_id_of_another_log_directory_of_the_node_is_appended(directory: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    own = (directory / FileKind.META_PROPERTIES).read_text()
    of_other = re.sub("directory.id=.*", "directory.id=AAECAwQFBgcICQoLDA0ODw", own)
    (other / FileKind.META_PROPERTIES).write_text(of_other)
    before = read_properties(other / FileKind.META_PROPERTIES)
    path = cut(directory)
    finding = of_meta(directory)
    assert str(other) in str(finding.action)
    subprocess.run(["sh", "-c", str(finding.command)], check=True)
    assert read_properties(path)["cluster.id"] == before["cluster.id"]
    assert [each for each in loud(directory) if "meta-properties" in each.kind] == []


def test_where_none_has_it(directory: Path, tmp_path: Path) -> None:
    cut(directory)
    other = tmp_path / "other"
    other.mkdir()
    (other / FileKind.META_PROPERTIES).write_text("version=1\nnode.id=4711\ncluster.id=another-nodes\n")
    finding = of_meta(directory)
    assert "append a line cluster.id=ID" in str(finding.action)
    shown = subprocess.run(["sh", "-c", str(finding.command)], check=True, capture_output=True, text=True)
    assert shown.stdout.endswith("cluster.id=another-nodes\n")


def test_recover_says_that_salvage_leaves_it(tmp_path: Path) -> None:
    """The node has other voters, with a cluster.id that no file of this directory has."""
    directory = copied(tmp_path, "kraft/controller-100")
    (directory / FileKind.CLEANER_OFFSETS).write_bytes(b"\xff")
    cut(directory)
    for options in ([], ["--salvage"]):
        shown = kcli("recover", *options, directory)
        assert f"meta.properties stays as it is: kcli verify {shlex.quote(str(directory))} tells" in shown.stdout
