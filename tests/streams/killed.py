"""The program of tests.streams.kills: counts by key of a stream that is joined with a table, and the tables' join.

python -m tests.streams.killed BOOTSTRAP_SERVERS APPLICATION_ID INSTANCE_ID
python -m tests.streams.killed BOOTSTRAP_SERVERS APPLICATION_ID CHECKPOINT MASTER    on Spark
"""

from __future__ import annotations

import sys

from kcli.streams import STRING, Topology
from kcli.streams.local import KafkaStreams
from tests.streams.applications import new_builder, text


def program(out: str) -> Topology:
    """Return the topology. out: how the names of the topics begin to which it sends."""
    builder = new_builder()
    table = builder.table("b", store_name="table")
    joined = builder.stream("a").left_join(table, lambda one, other: f"{one} {other}")
    counts = joined.group_by(lambda _, value: value.split()[0], name="by-letter").count(store_name="counts")
    counts.to_stream().map_values(text).to(f"{out}-counts")
    sums = joined.group_by_key().aggregate(str, lambda _, value, so_far: f"{(so_far + value)[-40:]}", store_name="sums")
    sums.join(table, lambda one, other: f"{one}|{other}", store_name="both", value_serde=STRING).to_stream().to(
        f"{out}-joined"
    )
    return builder.build()


if __name__ == "__main__":
    bootstrap_servers, application_id, instance_id, *master = sys.argv[1:]
    if master:
        from kcli.export.session import QUICK_START, SparkSettings, spark_session
        from kcli.streams.spark import SparkStreams

        with spark_session(SparkSettings(master[0], QUICK_START)) as spark:
            SparkStreams(
                program(application_id),
                application_id=application_id,
                bootstrap_servers=bootstrap_servers,
                checkpoint=instance_id,
            ).run(spark)
        sys.exit()
    KafkaStreams(
        program(application_id),
        application_id=application_id,
        bootstrap_servers=bootstrap_servers,
        instance_id=instance_id,
        client_config={"session.timeout.ms": "1000", "heartbeat.interval.ms": "300"},
    ).run()
