"""A node describes reassignments and SCRAM credentials that only a real Kafka can have written, and answers requests
about ACLs, of which it has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcli.metadata.partition import from_uuid
from tests.broker.running import Closed, RunningNode, running_node

SECURITY_DISABLED, RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE = 54, 91, 92
SHA_256, SHA_512 = 1, 2


def apply(node: RunningNode, name: str, /, **record: Any) -> None:
    image = node.node.broker.image
    node.run(lambda: image.apply(name, record, image.offset))


def test_reassignments(tmp_path: Path) -> None:
    with running_node(tmp_path / "d") as node, node.client() as client:
        made = {"num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
        topics = [{"name": name, **made} for name in ("still", "moves")]
        client.call("create_topics", 7, topics=topics, timeout=1000, validate_only=False)
        assert client.call("list_partition_reassignments", 0, timeout=1000, topics=None)["topics"] == []
        topic_id = from_uuid(node.node.broker.image.topics["moves"].id)
        change = {"replicas": [1, 2], "addingReplicas": [2], "removingReplicas": [1]}
        apply(node, "PartitionChangeRecord", topicId=topic_id, partitionId=1, **change)
        moving = {"partition_index": 1, "replicas": [1, 2], "adding_replicas": [2], "removing_replicas": [1]}
        expected = [{"name": "moves", "partitions": [moving]}]
        asked = [{"name": name, "partition_indexes": [0, 1, 7]} for name in ("still", "moves", "unknown")]
        for wanted in (None, asked):
            assert client.call("list_partition_reassignments", 0, timeout=1000, topics=wanted)["topics"] == expected


def test_scram_credentials(tmp_path: Path) -> None:
    with running_node(tmp_path / "d") as node, node.client() as client:

        def ask(*names: str) -> list[tuple[str, int, list[tuple[int, int]]]]:
            users = [{"name": name} for name in names]
            results = client.call("describe_user_scram_credentials", 0, users=users)["results"]
            return [
                (
                    each["user"],
                    each["error_code"],
                    [(info["mechanism"], info["iterations"]) for info in each["credential_infos"]],
                )
                for each in results
            ]

        assert ask() == []
        secret: dict[str, Any] = {"salt": b"s", "storedKey": b"k", "serverKey": b"k"}
        for name, mechanism, iterations in (("ann", SHA_256, 4096), ("ann", SHA_512, 8192), ("bob", SHA_512, 4097)):
            record = {"name": name, "mechanism": mechanism, "iterations": iterations, **secret}
            apply(node, "UserScramCredentialRecord", **record)
        ann, bob = ("ann", 0, [(SHA_256, 4096), (SHA_512, 8192)]), ("bob", 0, [(SHA_512, 4097)])
        assert ask() == [ann, bob]
        assert ask("bob") == [bob]
        assert ask("ann", "bob", "eve", "bob") == [
            ann,
            ("bob", DUPLICATE_RESOURCE, []),
            ("eve", RESOURCE_NOT_FOUND, []),
        ]


FILTER: dict[str, Any] = {
    "resource_type_filter": 2,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
ACL: dict[str, Any] = {
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:ann",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


def test_acls(tmp_path: Path) -> None:
    """Without an authorizer the node answers as Kafka does. It closes the connection where a request names a kind of
    ACL by the number for UNKNOWN."""
    no = {"error_code": SECURITY_DISABLED, "error_message": "No Authorizer is configured."}
    of_the_broker = {**no, "error_message": "No Authorizer is configured on the broker"}
    with running_node(tmp_path / "d") as node:
        with node.client() as client:
            for version in (1, 2, 3):
                told = client.call("describe_acls", version, **FILTER)
                assert told == {"throttle_time": 0, **of_the_broker, "resources": []}
                assert client.call("create_acls", version, creations=[ACL, ACL])["results"] == [no, no]
                told = client.call("delete_acls", version, filters=[FILTER, FILTER])
                assert told["filter_results"] == [{**no, "matching_acls": []}] * 2
            assert client.call("create_acls", 3, creations=[])["results"] == []
            odd = {"resource_type": 99, "resource_pattern_type": 99, "operation": 99, "permission_type": 99}
            assert client.call("create_acls", 3, creations=[{**ACL, **odd}])["results"] == [no]
        for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
            unknown = {**FILTER, field: 0}
            for api, request in (("describe_acls", unknown), ("delete_acls", {"filters": [FILTER, unknown]})):
                with node.client() as client, pytest.raises(Closed):
                    client.call(api, 3, **request)
        for field in ("resource_type", "resource_pattern_type", "operation", "permission_type"):
            with node.client() as client, pytest.raises(Closed):
                client.call("create_acls", 3, creations=[ACL, {**ACL, field: 0}])
