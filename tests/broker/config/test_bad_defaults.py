"""Kafka and kcli accept a default that no topic may have. It must end neither the running broker nor its next start."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.log.config import InvalidConfig
from tests.broker.api.test_produce_fetch import produce
from tests.broker.running import running_node
from tests.log.batches import batch

BROKER = 4


def test_it_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    configs = [{"name": "log.flush.interval.ms", "config_operation": 0, "value": "-1"}]
    resources = [{"resource_type": BROKER, "resource_name": "", "configs": configs}]
    with running_node(tmp_path) as node, node.client() as client:
        client.create_topic("before", 1)
        (done,) = client.call("incremental_alter_configs", 1, resources=resources, validate_only=False)["responses"]
        assert done["error_code"] == 0
        client.create_topic("after", 1)
        for topic in ("before", "after"):
            assert produce(client, 9, topic, batch(b"x"))["error_code"] == 0
    with running_node(tmp_path) as node, node.client() as client:
        for topic in ("before", "after"):
            assert produce(client, 9, topic, batch(b"x"))["base_offset"] == 1
    passed_over = [each for each in caplog.messages if "dynamic configuration passed over" in each]
    assert len(passed_over) == 2
    assert all("Invalid value -1 for configuration flush.ms" in each for each in passed_over)
    assert not [each for each in caplog.records if each.exc_info]


def test_in_a_file_it_ends_the_start_before_a_directory_is_touched(tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidConfig, match=r"Invalid value -1 for configuration flush\.ms"),
        running_node(tmp_path / "data", log_flush_interval_ms="-1"),
    ):
        pass
