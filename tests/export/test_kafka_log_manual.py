"""kcli-kafka-log(7) has every option and column of the data source."""

import re
from pathlib import Path

from kcli.export.columns import COLUMNS
from kcli.pipelines import cluster, sink

ROOT = Path(__file__).parent.parent.parent
PAGE = re.sub(r"\s+", " ", (ROOT / "man/kcli-kafka-log.7").read_text())


def test_options_and_columns() -> None:
    code = (ROOT / "kcli/export/options.py").read_text()
    options = re.findall(r"given\.(?:text|names|flag|choice|word)\(\s*\"([\w.]+)\"", code)
    for side in re.findall(r"given\.bound\(\"(\w+)\"", code):
        options += [f"{side}Offsets", f"{side}OffsetsByTimestamp", f"{side}Timestamp"]
    assert len(options) > 20
    assert not [name for name in [*options, *COLUMNS] if not re.search(rf"\b{re.escape(name)}\b", PAGE)]


def test_options_of_brokers() -> None:
    """Those that are honoured, and those that are accepted."""
    code = (ROOT / "kcli/pipelines/cluster.py").read_text() + (ROOT / "kcli/pipelines/sink.py").read_text()
    honoured = set(re.findall(r"settings(?:\.pop\(|\.get\(|, )\"([\w.]+)\"", code)) - {"transactional.id"}
    assert {"client.id", "compression.type", "transaction.timeout.ms", "acks", "request.timeout.ms"} <= honoured
    names = {f"kafka.{name}" for name in honoured | set(cluster._WITHOUT_EFFECT) | set(sink._ACCEPTED)}
    names |= {"kafkaConsumer.pollTimeoutMs", "deliveryGuarantee", "topic", sink.EXACTLY_ONCE, sink.AT_LEAST_ONCE}
    assert not [name for name in names if not re.search(rf"\b{re.escape(name)}\b", PAGE)]


def test_what_makes_spark_find_the_data_source() -> None:
    """The script .ci/use-installed, for an environment with kcli alone, and docs/parquet.md have the page's line."""
    line = re.search(r"os\.environ\[.*\] = \S+", PAGE)
    assert line is not None
    assert f"\n{line[0]}\nspark = " in (ROOT / ".ci/use-installed").read_text()
    assert line[0] in (ROOT / "docs/parquet.md").read_text()
