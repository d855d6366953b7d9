"""The program of tests.streams.test_takeover: counts by key; each count tells the instance that has made it.

python -m tests.streams.taken_over BOOTSTRAP_SERVERS INSTANCE
"""

from __future__ import annotations

import sys

from kcli.streams import LONG, Topology
from kcli.streams.local import KafkaStreams
from kcli.testing.streams import CLIENT_CONFIG
from tests.streams.applications import new_builder


def program(instance: str) -> Topology:
    """Return the topology. instance: told with each count."""
    builder = new_builder()
    counts = builder.stream("a").group_by_key().count(store_name="counts", value_serde=LONG)
    counts.to_stream().map_values(lambda count: f"{instance} {count}").to("out")
    return builder.build()


if __name__ == "__main__":
    bootstrap_servers, instance = sys.argv[1:]
    KafkaStreams(
        program(instance),
        application_id="app",
        bootstrap_servers=bootstrap_servers,
        config={"num.standby.replicas": 2},
        client_config=CLIENT_CONFIG,
    ).run()
