"""A program of kcli.streams that runs beside the broker of a test."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from kcli.client.connection import Connection
from kcli.streams.local.lag import lags

if TYPE_CHECKING:
    from kcli.streams.local import KafkaStreams
    from kcli.streams.topology.topology import Topology

CLIENT_CONFIG = {
    "heartbeat.interval.ms": "300",
    "session.timeout.ms": "1000",
    "transaction.timeout.ms": "1000",
}
"""The group and the transaction coordinator give an instance up that was silent for a second."""
LOOK_AGAIN_S = 0.02


class RunningStreams:
    """An instance of an application, which runs on a thread. app: the instance."""

    def __init__(self, app: KafkaStreams, topology: Topology, application_id: str, connection: Connection) -> None:
        self.app = app
        self._topology, self._application_id, self._connection = topology, application_id, connection
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"streams {application_id}", daemon=True)
        self._thread.start()

    @property
    def running_tasks(self) -> list[str]:
        """The ids of the tasks that process records."""
        return self.app.running_tasks

    def wait_processed(self, timeout_s: float = 30.0) -> None:
        """Wait until the application has processed and committed all records that its topics have. Raises what the
        program has raised; TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while True:
            self._check()
            rows = lags(self._connection, self._topology, self._application_id)
            if all(each.member is not None and not each.lag for each in rows if each.end is not None):
                return
            if time.monotonic() > deadline:
                behind = ", ".join(
                    f"{each.place.topic}-{each.place.partition} by {each.lag}" for each in rows if each.lag
                )
                raise TimeoutError(
                    f"{self._application_id} has not processed all in {timeout_s} s: {behind or 'no task'}"
                )
            time.sleep(LOOK_AGAIN_S)

    def close(self) -> None:
        """Commit, and leave the group. Raises what the program has raised."""
        self.app.close()
        self._thread.join()
        self._check()

    def _run(self) -> None:
        try:
            self.app.run()
        except BaseException as failure:  # noqa: BLE001 (raised again on the test's thread)
            self._failure = failure

    def _check(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
