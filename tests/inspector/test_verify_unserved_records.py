"""A coordinator's topic that has grown: Kafka looks for most groups and transactional ids in another partition than the
one that has their records. verify and recover name them, salvage keeps their records, and so do groups and transactions
of files. Kafka's own answer (GroupIdNotFoundException) was seen with kafka-topics --alter on __consumer_offsets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kcli.inspector.cluster_metadata import read_image
from kcli.inspector.groups import GroupFiles
from kcli.inspector.transactions import TransactionFiles
from kcli.inspector.verify.findings import Finding
from kcli.java.hashing import partition_of
from kcli.log.coordinator_records import read_records
from kcli.log.disk import Disk
from kcli.log.recovery.state_records import append_record
from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import from_uuid
from kcli.metadata_log.unserved_state import UnservedState, unserved_state
from kcli.views.transactions import TransactionFilter
from tests.cli.run import kcli
from tests.inspector.test_verify_causes import loud
from tests.metadata_damage import appended, copied

LOG = f"{0:020}.log"
GROUPS, TRANSACTIONS, SHARES = "__consumer_offsets", "__transaction_state", "__share_group_state"
TOPICS = [  # the golden directory, the topic, its number of partitions before and after
    ("groups/data", GROUPS, 4, 7),
    ("txn/data", TRANSACTIONS, 3, 5),
    ("groups/data", SHARES, 2, 5),
]


def grown(data: Path, topic: str, count: int, replicas: list[int] | None = None) -> None:
    """Give a topic more partitions, as CreatePartitions does: records in the metadata log, and empty directories."""
    image = image_of(data)
    known = image.topics[topic]
    before, first = len(known.partitions), known.partitions[0]
    for number in range(before, count):
        node: dict[str, object] = {"leader": first.replicas[0], "leaderEpoch": 0}
        where: dict[str, object] = {"partitionId": number, "topicId": from_uuid(known.id)}
        node["replicas"] = node["isr"] = replicas or first.replicas
        where["directories"] = [from_uuid(first.directories[0])] * len(replicas or first.replicas)
        appended(data, ("PartitionRecord", 1, {**where, **node, "partitionEpoch": 0, "leaderRecoveryState": 0}))
        made = data / f"{topic}-{number}"
        made.mkdir()
        (made / LOG).touch()
        (made / "leader-epoch-checkpoint").write_text("0\n0\n")
        shutil.copyfile(data / f"{topic}-0" / "partition.metadata", made / "partition.metadata")


def image_of(data: Path) -> MetadataImage:
    image = read_image(data)
    assert image is not None
    return image


def unserved(data: Path, topic: str) -> list[Finding]:
    """Return the findings about a topic's partitions that are no notes."""
    return [each for each in loud(data) if f"/{topic}-" in each.path]


def state_of_any(data: Path, topic: str) -> set[str]:
    found = unserved_state([data], image_of(data)).get(topic)
    return set() if found is None else set(found.places)


def state_of(data: Path, topic: str) -> UnservedState:
    return unserved_state([data], image_of(data))[topic]


@pytest.mark.parametrize(("source", "topic", "before", "count"), TOPICS)
def test_a_grown_topic_is_one_finding(tmp_path: Path, source: str, topic: str, before: int, count: int) -> None:
    data = copied(tmp_path, source)
    assert not [each for each in loud(data) if each.kind == "records-unserved"]
    grown(data, topic, count)
    state = state_of(data, topic)
    assert (state.before, state.count, bool(state.places)) == (before, count, True)
    (finding,) = unserved(data, topic)
    severity = "warning" if topic == TRANSACTIONS else "error"
    assert (finding.kind, finding.severity) == ("records-unserved", severity)
    assert f"the topic grew from {before} to {count} partitions" in str(finding.found)
    name, place = next(iter(state.places.items()))
    number = place.directory.name.rpartition("-")[2]
    assert f"{name} (in {number}, looked for in {place.home})" in str(finding.found)
    assert finding.action.startswith("Kafka starts, and ")


@pytest.mark.parametrize(("source", "topic"), [each[:2] for each in TOPICS[:2]])
def test_ids_are_those_whose_partition_is_another(tmp_path: Path, source: str, topic: str) -> None:
    data = copied(tmp_path, source)
    count = {GROUPS: 7, TRANSACTIONS: 5}[topic]
    if topic == GROUPS:
        ids = {each.group for each in GroupFiles([data]).all()}
    else:
        ids = {each.transactional_id for each in TransactionFiles([data], 0).all(TransactionFilter())}
    before = len(image_of(data).topics[topic].partitions)
    grown(data, topic, count)
    moved = {name: partition_of(name, count) for name in ids if partition_of(name, count) != partition_of(name, before)}
    assert {name: place.home for name, place in state_of(data, topic).places.items()} == moved


@pytest.mark.parametrize(("source", "topic", "before", "count"), TOPICS)
def test_recover_foretells_it_and_salvage_keeps_all(
    tmp_path: Path, source: str, topic: str, before: int, count: int
) -> None:
    data = copied(tmp_path, source)
    grown(data, topic, count)
    told = kcli("recover", "--format", "jsonl", data)
    rows = [json.loads(line) for line in told.stdout.splitlines()]
    (row,) = [row for row in rows if row.get("file", "").startswith(f"{topic}-") and row["kind"] == "passed-over"]
    assert (told.status, ": Kafka starts, and " in row["reason"]) == (1, True)
    assert not [row for row in rows if row["kind"] in ("exchanged", "records-foreign")]
    kept = kcli("recover", "--salvage", "--out", tmp_path / "out", data)
    assert kept.status == 0
    for number in range(before):
        log = Path(f"{topic}-{number}") / LOG
        assert (tmp_path / "out" / log).read_bytes().startswith((data / log).read_bytes())
    assert topic == GROUPS or [each.kind for each in unserved(tmp_path / "out", topic)] == ["records-unserved"]


@pytest.mark.parametrize("options", [["--out"], ["--in-place"]])
def test_salvage_appends_committed_offsets_where_kafka_looks(tmp_path: Path, options: list[str]) -> None:
    data = copied(tmp_path, "groups/data")
    before = GroupFiles([data])
    offsets = {each.group: before.committed(each.group) for each in before.all()}
    grown(data, GROUPS, 7)
    places = state_of(data, GROUPS).places
    (finding,) = unserved(data, GROUPS)
    assert "; salvage appends " in finding.action
    assert finding.command == f"kcli recover --salvage --dry-run {data}"
    assert f"kcli recover --salvage --out NEW {data}" in kcli("recover", data).stdout
    out = tmp_path / "out" if options == ["--out"] else data
    told = kcli("recover", "--salvage", *options, *([out] if out != data else []), data)
    assert told.status == 0
    assert "; salvage appends " in told.stdout
    assert not {name for name in places if offsets[name]} & state_of_any(out, GROUPS)
    after = GroupFiles([out])
    assert {name: after.committed(name) for name in offsets} == offsets
    assert not [each for each in unserved(out, GROUPS) if each.kind != "records-unserved"]


def test_salvage_appends_nothing_where_another_broker_has_a_replica(tmp_path: Path) -> None:
    data = copied(tmp_path, "groups/data")
    grown(data, GROUPS, 7, replicas=[1, 2])
    (finding,) = unserved(data, GROUPS)
    assert "; salvage appends those of " in finding.action  # of groups that have moved between the older partitions
    ids = {"topicId": from_uuid(image_of(data).topics[GROUPS].id), "replicas": [1, 2], "isr": [1, 2]}
    appended(data, *(("PartitionChangeRecord", 0, {**ids, "partitionId": number}) for number in range(4)))
    (finding,) = unserved(data, GROUPS)
    assert finding.command is not None
    assert finding.command.startswith(f"kcli groups describe --data-dir {data} -- ")
    assert "kcli groups reset GROUP" in finding.action
    assert kcli("recover", "--salvage", "--out", tmp_path / "out", data).status == 0
    assert not any((tmp_path / "out" / f"{GROUPS}-{number}" / LOG).stat().st_size for number in (4, 5, 6))


def test_keys_tell_it_when_a_snapshot_stands_for_the_records(tmp_path: Path) -> None:
    data = copied(tmp_path, "groups/data")
    grown(data, GROUPS, 7)
    image = image_of(data)
    shutil.rmtree(data / "__cluster_metadata-0")
    assert unserved_state([data], image)[GROUPS].before == 4


def test_an_id_that_is_in_its_partition_again_is_found(tmp_path: Path) -> None:
    data = copied(tmp_path, "groups/data")
    grown(data, GROUPS, 7)
    places = state_of(data, GROUPS).places
    name, place = next(iter(places.items()))
    live = [each for _, each in read_records(place.directory, lambda _: None) if each.value is not None]
    key, value = next((each.key, each.value) for each in live if each.key and each.key[4:].startswith(name.encode()))
    append_record(data / f"{GROUPS}-{place.home}", Disk(), key, value, 0)
    assert state_of(data, GROUPS).places.keys() == places.keys() - {name}
    assert f"{name} (" not in "".join(map(str, GroupFiles([data]).trouble))


def test_groups_of_files_warn(tmp_path: Path) -> None:
    data = copied(tmp_path, "groups/data")
    assert kcli("groups", "list", "--data-dir", data).status == 0
    grown(data, GROUPS, 7)
    name = next(iter(state_of(data, GROUPS).places))
    told = kcli("groups", "describe", name, "--data-dir", data)
    assert told.status == 1
    assert f"kcli: {GROUPS}: the records of " in told.stderr
    assert "in other partitions than the one in which Kafka looks" in told.stderr
    assert name in told.stdout


def test_transactions_of_files_warn(tmp_path: Path) -> None:
    data = copied(tmp_path, "txn/data")
    before = kcli("transactions", "list", "--data-dir", data)
    assert before.status == 0
    grown(data, TRANSACTIONS, 5)
    told = kcli("transactions", "list", "--data-dir", data)
    assert (told.status, told.stdout) == (1, before.stdout)
    assert f"kcli: {TRANSACTIONS}: the records of " in told.stderr
    name = next(iter(state_of(data, TRANSACTIONS).places))
    assert f"{name} (" in told.stderr or " more" in told.stderr
    hangs = kcli("transactions", "find-hanging", "--data-dir", data)
    assert f"{TRANSACTIONS}: the records of " not in hangs.stderr
