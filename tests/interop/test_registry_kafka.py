"""The schemas of `kcli serve --registry`: real Kafka opens the directory, and a registry goes on with its topic."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.log.config import VALUE_SCHEMAS
from kcli.testing.kafka import Kafka
from tests.interop.kit import kafka
from tests.registry.running import TIMEOUT_S, Process, ask, register

NODE = f"kcli-registry-{os.getpid()}"
RECORD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
WITH_DEFAULT = {**RECORD, "fields": [*RECORD["fields"], {"name": "note", "type": "string", "default": ""}]}


@pytest.mark.usefixtures("kafka_jars")
def test_real_kafka_opens_the_directory_and_a_registry_goes_on(tmp_path: Path) -> None:
    with Kafka.started() as ours:
        assert register(ours.registry.url, "orders-value", RECORD).json["id"] == 1
        admin = AdminClient({"bootstrap.servers": ours.bootstrap_servers})
        admin.create_topics([NewTopic("orders", 1, config={VALUE_SCHEMAS: "true"})])["orders"].result(TIMEOUT_S)
        producer = Producer({"bootstrap.servers": ours.bootstrap_servers})
        producer.produce("orders", b"\0\0\0\0\1\2")
        assert producer.flush(TIMEOUT_S) == 0
        ours.stop()
        shutil.copytree(ours.data_dir, tmp_path / "data")
    try:
        bootstrap = kafka("open", str(tmp_path / "data"), NODE).strip()
        offsets = kafka("get-offsets", "--bootstrap-server", bootstrap, "--topic", "orders")
        assert "orders:0:1" in offsets.split()
        registry = Process(bootstrap)
        try:
            assert ask(registry.url, "GET", "/subjects").json == ["orders-value"]
            assert register(registry.url, "orders-value", RECORD).json["id"] == 1
            assert register(registry.url, "orders-value", WITH_DEFAULT).json["id"] == 2
            assert register(registry.url, "orders-value", "int").status == 409
        finally:
            assert "Traceback" not in registry.end()
    finally:
        if re.search(rf"^{NODE} .* running", kafka("ls"), re.MULTILINE):
            kafka("kill", NODE)
