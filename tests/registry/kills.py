"""Registries whose leader is killed, or paused for longer than its session, while clients register schemas.

    python -m tests.registry.kills --kills 50

Checked after each kill and at the end: what was answered is there, at both registries, with the id that was answered;
in the topic, no id has two texts, and no version of a subject has two ids. SIGKILL ends the leader; each third time it
is paused instead, until another leads, and then goes on while clients write to both: its writes must not come through
on what it knew before.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import threading
import time
from collections.abc import Callable
from http.client import HTTPException
from typing import Any

from kcli.testing.kafka import Kafka
from tests.registry.running import Process, ask, register

SESSION = ("kafkagroup.session.timeout.ms=1500", "kafkagroup.heartbeat.interval.ms=150")
BROKER = {"group.min.session.timeout.ms": "500"}
SUBJECTS = 5
WAIT_S = 60.0


class Clients:
    """Threads that register schemas at whichever registry answers. answered: text -> the ids that were answered."""

    def __init__(self, urls: Callable[[], list[str]], count: int = 3) -> None:
        self.answered: dict[str, set[int]] = {}
        self.failures = 0
        self._urls, self._lock, self._stop = urls, threading.Lock(), threading.Event()
        self._threads = [threading.Thread(target=self._register, args=(each,), daemon=True) for each in range(count)]
        for each in self._threads:
            each.start()

    def _register(self, client: int) -> None:
        number = 0
        chance = random.Random(client)
        while not self._stop.is_set():
            number += 1
            schema = {"type": "enum", "name": f"E{client}x{number}", "symbols": ["A"]}
            subject = f"subject-{chance.randrange(SUBJECTS)}"
            try:
                answer = register(chance.choice(self._urls()), subject, schema)
            except (OSError, HTTPException):
                self.failures += 1
                time.sleep(0.02)
                continue
            if answer.status == 200:
                with self._lock:
                    self.answered.setdefault(json.dumps(schema, separators=(",", ":")), set()).add(answer.json["id"])
            else:
                assert answer.status == 500, answer
                self.failures += 1
                time.sleep(0.02)

    def count(self) -> int:
        """The number of schemas whose registration was answered."""
        with self._lock:
            return len(self.answered)

    def stop(self) -> None:
        """End all threads."""
        self._stop.set()
        for each in self._threads:
            each.join(WAIT_S)


def run(kills: int, note: Callable[[str], object] = lambda _: None) -> int:
    """Kill the leader so many times. Return the number of schemas that were registered. Raises AssertionError."""
    with Kafka.started(process="child", config=BROKER) as kafka:
        # schemas of a subject need not follow each other
        nodes = [Process(kafka.bootstrap_servers, SESSION) for _ in range(2)]
        try:
            allow_all(nodes[0].url)
            clients = Clients(lambda: [each.url for each in nodes])
            for i in range(kills):
                nodes.sort(key=lambda each: each.url)  # the smallest URL leads
                _progress(clients)
                if i % 3 == 2:
                    nodes[0].process.send_signal(signal.SIGSTOP)
                    time.sleep(2.5)
                    nodes[0].process.send_signal(signal.SIGCONT)
                else:
                    nodes[0].end(signal.SIGKILL)
                    nodes[0] = Process(kafka.bootstrap_servers, SESSION)
                _progress(clients)
                note(f"{i + 1} kills, {clients.count():,} schemas, {clients.failures:,} failures")
            clients.stop()
            for each in nodes:
                check_answers(each.url, clients)
            check_topic(kafka)
            return clients.count()
        finally:
            for each in nodes:
                if each.process.poll() is None:
                    each.end(signal.SIGKILL)


def allow_all(url: str) -> None:
    """Have any schema follow any other."""
    deadline = time.monotonic() + WAIT_S
    while ask(url, "PUT", "/config", {"compatibility": "NONE"}).status != 200:
        assert time.monotonic() < deadline, "nobody leads"
        time.sleep(0.1)


def _progress(clients: Clients) -> None:
    """Wait until some more schemas are registered."""
    before, deadline = clients.count(), time.monotonic() + WAIT_S
    while clients.count() < before + 5:
        assert time.monotonic() < deadline, "no schema can be registered"
        time.sleep(0.02)


def check_answers(url: str, clients: Clients) -> None:
    """Check that each answered schema has the one id that was answered, once the registry has read to the end."""
    missing: list[str] = []
    for text, ids in clients.answered.items():
        assert len(ids) == 1, f"{text} has the ids {ids}"
        deadline = time.monotonic() + WAIT_S
        while (found := ask(url, "GET", f"/schemas/ids/{min(ids)}")).status != 200 and time.monotonic() < deadline:
            time.sleep(0.05)
        if found.status != 200 or json.loads(found.json["schema"]) != json.loads(text):
            missing.append(f"{text}: {ids}: {found}")
    assert not missing, missing


def check_topic(kafka: Kafka) -> None:
    """Check that no id has two texts, and no version of a subject two ids."""
    texts: dict[int, str] = {}
    versions: dict[tuple[str, int], int] = {}
    for each in kafka.records("_schemas"):
        key: dict[str, Any] = json.loads(each.key or b"{}")
        if key.get("keytype") == "SCHEMA" and each.value:
            value = json.loads(each.value)
            assert texts.setdefault(value["id"], value["schema"]) == value["schema"], f"offset {each.offset}: {value}"
            version = value["subject"], value["version"]
            assert versions.setdefault(version, value["id"]) == value["id"], f"offset {each.offset}: {value}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    given = parser.parse_args()
    print(f"{run(given.kills, print):,} schemas, none lost, no id given twice")
