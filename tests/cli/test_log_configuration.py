"""The configuration of a topic, for a log directory whose metadata log lies in another one of log.dirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.cli.settings import Settings
from tests.two_directories import two_directories


@pytest.mark.parametrize("is_named", [True, False])
def test_a_topic_has_the_configuration_of_the_metadata_log_elsewhere(tmp_path: Path, is_named: bool) -> None:
    """By metadata.log.dir, or in the first of log.dirs, as for Kafka where that is not set."""
    one, two, server = two_directories(tmp_path)
    if not is_named:
        server.write_text("".join(f"{line}\n" for line in server.read_text().split("\n") if "metadata" not in line))
    for home in (one, two, two / "mixed-0"):
        assert Settings(home, server, []).log_config("mixed").index_interval_bytes == 500
    assert Settings(two, None, []).log_config("mixed").index_interval_bytes == 4096
