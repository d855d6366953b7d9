"""A log directory without __cluster_metadata-0, or with it under another name.

Kafka 4.3.0 starts without it, knows no topic, and renames all partitions to -stray; it does not start with
`__cluster_metadata-0.bak`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from formats.file_name import METADATA_DIRECTORY
from kcli.log.partition_view import PartitionView
from kcli.metadata.partition import from_uuid
from kcli.metadata_log.replay import refuse, replay
from tests.cli.run import kcli
from tests.metadata_damage import copied, partitions

SERVER = """process.roles={roles}
node.id=1
controller.quorum.voters={voters}
log.dirs={directory}
"""


def server(directory: Path, roles: str = "broker,controller", voters: str = "1@localhost:9093") -> Path:
    path = directory.parent / "server.properties"
    path.write_text(SERVER.format(roles=roles, voters=voters, directory=directory))
    return path


def topics(directory: Path) -> dict[str, tuple[str, int]]:
    """The id and the number of partitions of each topic that has a directory, by the metadata log."""
    names = {name.rpartition("-")[0] for name in partitions(directory)}
    home = directory / METADATA_DIRECTORY
    found = replay(home, PartitionView(home).original, refuse, around_damage=False).topics.values()
    return {each.name: (from_uuid(each.id), len(each.partitions)) for each in found if each.name in names}


def test_verify_names_it_where_the_configuration_has_it(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    shutil.rmtree(directory / METADATA_DIRECTORY)
    shown = kcli("verify", "--config", server(directory), directory)
    first = shown.stdout.splitlines()[0]
    assert first.startswith(f"error   partition-missing  {directory / METADATA_DIRECTORY}")
    assert "renames all partitions to -stray" in first
    assert shown.status == 1
    assert kcli("verify", "--config", server(directory, "broker"), directory).status == 0  # it fetches the log


def test_salvage_makes_it_anew(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    before = topics(directory)
    shutil.rmtree(directory / METADATA_DIRECTORY)
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--config", server(directory), "--out", new, directory).status == 0
    assert topics(new) == before
    rows = map(json.loads, kcli("recover", "--format", "jsonl", "--config", server(new), new).stdout.splitlines())
    assert {row["kind"] for row in rows} & {"stray", "metadata-lost", "metadata-damaged", "refused"} == set()


def test_salvage_in_place_makes_it_anew(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    before = topics(directory)
    shutil.rmtree(directory / METADATA_DIRECTORY)
    assert kcli("recover", "--salvage", "--config", server(directory), "--in-place", directory).status == 0
    assert topics(directory) == before


def test_not_beside_other_voters(tmp_path: Path) -> None:
    """The others have the records."""
    directory = copied(tmp_path)
    shutil.rmtree(directory / METADATA_DIRECTORY)
    config = server(directory, voters="1@a:9093,2@b:9093,3@c:9093")
    kcli("recover", "--salvage", "--config", config, "--out", tmp_path / "new", directory)
    assert not (tmp_path / "new" / METADATA_DIRECTORY).exists()


@pytest.mark.parametrize("name", [f"{METADATA_DIRECTORY}.bak", "old", f"{METADATA_DIRECTORY}.{'0' * 32}-stray"])
def test_under_another_name(tmp_path: Path, name: str) -> None:
    directory = copied(tmp_path)
    (directory / METADATA_DIRECTORY).rename(directory / name)
    shown = kcli("verify", directory).stdout.splitlines()
    assert shown[0].startswith(f"error   partition-missing  {directory / METADATA_DIRECTORY}")
    command = next(line for line in shown if "Next: " in line).split("Next: ")[1]
    told = kcli("recover", directory).stdout.splitlines()
    assert next(line for line in told if line.startswith("next")).split(maxsplit=1)[1] == command
    for options in (["--salvage", "--out", tmp_path / "new"], ["--out", tmp_path / "new"], ["--in-place"]):
        ended = kcli("recover", *options, directory)
        assert ended.status == 2
        assert "the metadata log; give it its name back first" in ended.stderr
    subprocess.run(["bash", "-c", command], check=True)
    assert kcli("verify", directory).status == 0
