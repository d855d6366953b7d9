"""Backups of a running broker whose transactions write to several topics at once: what is restored has each transaction
in all of its partitions or in none, as far as the coordinator's records decide it. Looking at a partition takes 4 ms
here, so that many transactions begin and end while a run looks at all of them."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.backup import backup, restore
from kcli.backup.cut import transactions
from kcli.backup.listing import Files, list_files
from kcli.cli.options import current_ms
from kcli.log.coordinator_records import read_records, segments
from kcli.log.disk import Disk
from kcli.log.segment_reader import sound_batches
from kcli.log.source import FileSource
from kcli.tier.local import LocalStore
from tests.broker.running import served_node

TOPICS = [f"x{number}" for number in range(6)]
PRODUCERS, RUNS, LISTING_S = 3, 4, 0.004


def produce(address: str, name: str, stop: Event) -> None:
    """Transactions of a record in each topic, every fifth of them aborted."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(30)
    number = 0
    while not stop.is_set():
        producer.begin_transaction()
        for topic in TOPICS:
            producer.produce(topic, value=f"{number}", partition=0)
        if number % 5 == 4:
            producer.flush(10)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
        number += 1


def ended(directory: Path) -> tuple[Counter[int], set[int]]:
    """How many transactions of each producer a partition has that a marker ends, and whose is open."""
    counts: Counter[int] = Counter()
    begun: set[int] = set()
    for _, path in segments(directory):
        source = FileSource(path)
        for batch in sound_batches(source):
            counts.update(begun & {batch.producer_id} if batch.is_control else ())
            begun = begun - {batch.producer_id} if batch.is_control else begun | {batch.producer_id}
        source.close()
    return counts, begun


def torn(out: Path) -> int:
    """The number of producers whose transactions Kafka will not make whole in what was restored."""
    records = (
        (record.key, record.value, record.timestamp_ms)
        for directory in sorted(out.glob("__transaction_state-*"))
        for _, record in read_records(directory, lambda _: None)
        if record.marker is None
    )
    states, found = transactions(records), {topic: ended(out / f"{topic}-0") for topic in TOPICS}
    wrong = 0
    for producer_id in {each for counts, _ in found.values() for each in counts}:
        state = states[producer_id]
        counts = {topic: found[topic][0][producer_id] for topic in TOPICS}
        begun = {topic for topic in TOPICS if producer_id in found[topic][1]}
        least, most = min(counts.values()), max(counts.values())
        behind = {topic for topic in TOPICS if counts[topic] < most}
        known = {each.topic for each in state.partitions}
        is_whole = least == most or (state.state.is_prepared and most == least + 1 and behind <= begun)
        wrong += not (is_whole and begun <= known)
    return wrong


def test_no_transaction_is_torn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(directory: Path) -> Files | None:
        time.sleep(LISTING_S)
        return list_files(directory)

    monkeypatch.setattr(backup, "list_files", slow)
    (tmp_path / "store").mkdir()
    store, stop = LocalStore(tmp_path / "store"), Event()
    with served_node(tmp_path / "data") as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        for future in admin.create_topics([NewTopic(topic, 1, 1) for topic in TOPICS]).values():
            future.result(30)
        names = [f"producer-{number}" for number in range(PRODUCERS)]
        threads = [Thread(target=produce, args=(node.bootstrap, name, stop)) for name in names]
        for thread in threads:
            thread.start()
        time.sleep(2)
        runs = [backup.back_up([tmp_path / "data"], store, current_ms) for _ in range(RUNS)]
        stop.set()
        for thread in threads:
            thread.join()
    left_out = 0
    for number, run in enumerate(runs):
        out = tmp_path / f"new-{number}"
        left_out += sum(each.left_out for each in restore.restore(store, run.manifest, [out], disk=Disk()).partitions)
        assert torn(out) == 0
    assert left_out > 0
    monkeypatch.setattr(restore, "end_of", lambda *_: None)
    for number, run in enumerate(runs):
        restore.restore(store, run.manifest, [tmp_path / f"uncut-{number}"], disk=Disk())
    assert any(torn(tmp_path / f"uncut-{number}") for number in range(RUNS)), "the test can fail"
