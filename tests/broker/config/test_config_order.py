"""DescribeConfigs lists the configurations of a resource in the order of a Java hash map, as Kafka does.

order.json is what real Kafka 4.3 answered; `python -m tests.broker.config.test_config_order HOST:PORT` writes it anew.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.broker.running import Client, running_node

RECORDED = Path(__file__).with_name("order.json")
TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
DYNAMIC = {
    "log.retention.ms": "900000",
    "log.segment.bytes": "2000000",
    "max.connections": "500",
    "log.cleaner.threads": "2",
    "message.max.bytes": "1000000",
    "compression.type": "zstd",
}
ASKED = [
    (TOPIC, "t", None),
    (BROKER, "1", None),
    (BROKER, "", None),
    (GROUP, "g", None),
    (CLIENT_METRICS, "m", None),
    (TOPIC, "t", ["retention.ms", "cleanup.policy", "segment.bytes", "min.insync.replicas", "no.such"]),
    (TOPIC, "t", ["cleanup.policy", "segment.bytes", "retention.ms", "cleanup.policy"]),
    (BROKER, "1", ["num.partitions", "listeners", "log.dirs", "super.users", "node.id"]),
    (BROKER, "", ["message.max.bytes", "log.segment.bytes"]),
    (GROUP, "g", ["streams.session.timeout.ms", "share.isolation.level", "consumer.session.timeout.ms"]),
]


def described(client: Client) -> list[list[str]]:
    """The names that are answered, in order."""
    client.create_topic("t", 1, {"retention.ms": "5000", "cleanup.policy": "compact"})
    configs = [{"name": name, "config_operation": 0, "value": value} for name, value in DYNAMIC.items()]
    resources = [{"resource_type": BROKER, "resource_name": "", "configs": configs}]
    (done,) = client.call("incremental_alter_configs", 1, resources=resources, validate_only=False)["responses"]
    assert done["error_code"] == 0, done
    found = []
    for kind, name, keys in ASKED:
        asked = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
        options: dict[str, Any] = {"include_synonyms": False, "include_documentation": False}
        (result,) = client.call("describe_configs", 4, resources=[asked], **options)["results"]
        found.append([each["name"] for each in result["configs"]])
    return found


def test_configurations_come_in_kafkas_order(tmp_path: Path) -> None:
    recorded = json.loads(RECORDED.read_text())
    with running_node(tmp_path) as node, node.client() as client:
        found = described(client)
    for asked, ours, kafkas in zip(ASKED, found, recorded, strict=True):
        assert ours == kafkas, asked


if __name__ == "__main__":
    host, _, port = sys.argv[1].rpartition(":")
    with Client((host, int(port))) as connection:
        lists = described(connection)
    RECORDED.write_text("[\n" + ",\n".join(json.dumps(each) for each in lists) + "\n]\n")
