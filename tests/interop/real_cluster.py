"""A cluster of real Kafka 4.3 nodes, started from the kit's jars as the script `kafka` starts one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.interop import kit
from tests.interop.clusters import Cluster, Place

QUICK = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
AS_KAFKAS_SCRIPTS = (
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
)  # fmt: skip
"""For comparisons of speed and memory."""


class RealCluster(Cluster):
    """Of nodes that run kafka.Kafka."""

    name = "Kafka"

    def __init__(
        self,
        directory: Path,
        options: Mapping[str, str] | None = None,
        *,
        nodes: int = 3,
        places: Sequence[Place] | None = None,
        enter: Callable[[int], list[str]] | None = None,
        java: Sequence[str] = QUICK,
    ) -> None:
        """java: options of the machine. Raises KafkaUnavailableError."""
        super().__init__(directory, options, nodes=nodes, places=places, enter=enter)
        self._jars, self._java = kit.set_up(), java

    def _command(self, node: int) -> list[str]:
        place = self.place(node)
        level = os.environ.get("KAFKA_LOG_LEVEL", "info")
        logger = [f"-Dorg.slf4j.simpleLogger.defaultLogLevel={level}", "-Dorg.slf4j.simpleLogger.showDateTime=true"]
        more = [f"-Dkafka.logs.dir={place}", "-Dfile.encoding=UTF-8", *logger, "-cp", f"{self._jars}/*"]
        shared = kit.shared_classes() if self._java == QUICK else []
        return ["java", *self._java, *shared, *more, "kafka.Kafka", str(place / "server.properties")]
