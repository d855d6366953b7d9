"""server.properties, good and bad, to be read by Kafka and by kcli; what Kafka says is in `server_properties.jsonl.gz`.

sweep   every configuration with values that some type or limit does not take
CROSS   configurations that contradict each other
JUDGE   a Java program that has Kafka judge them
"""

# ruff: noqa: E501  (a topic of cases is a line)

from collections.abc import Iterator
from pathlib import Path

from kcli.broker.config.broker_keys import BROKER_KEYS
from kcli.broker.config.keys import ConfigType

VERDICTS = Path(__file__).with_name("server_properties.jsonl.gz")

BASE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "/a,/b",
}
VALUES = (
    "",
    " 7 ",
    "+3",
    "-1",
    "-3",
    "0",
    "1",
    "99999",
    "3000000000",
    "9" * 20,
    "1.5",
    "-1e-3",
    "0.1f",
    "true",
    " FALSE",
    "x",
    "a,a",
    "a,,b",
    " x , y ",
)

# kcli never loads a class that a configuration names; Kafka does.
NOT_SWEPT = (ConfigType.CLASS,)

WITHOUT = "<without>"

CROSS: list[dict[str, str]] = [
    {},
    *({name: WITHOUT} for name in BASE),
    {"node.id": WITHOUT, "broker.id": "1"},
    {"broker.id": "2"},
    {"broker.id": "1"},
    {"process.roles": "broker"},
    {"process.roles": "controller"},
    {"process.roles": "broker", "controller.quorum.voters": "2@localhost:9093"},
    {"process.roles": "broker", "controller.quorum.voters": "2@localhost:9093", "listeners": "PLAINTEXT://localhost:9092"},
    {"process.roles": "broker,observer"},
    {"process.roles": "broker,broker"},
    {"controller.quorum.voters": "2@localhost:9093"},
    {"controller.quorum.voters": WITHOUT, "controller.quorum.bootstrap.servers": "localhost:9093"},
    {"controller.quorum.bootstrap.servers": "localhost"},
    {"controller.quorum.bootstrap.servers": "local host:9"},
    *({"controller.quorum.voters": text} for text in ("1", "x@localhost:1", "1@localhost", "1@:9093", "1@a@b", "1@local host:9093", "1@[::1]:9093", "1@0.0.0.0:9093", "1@localhost:x")),
    *(
        {"listeners": text}
        for text in (
            "PLAINTEXT://localhost:9092",
            "CONTROLLER://localhost:9093",
            "PLAINTEXT://:9092,CONTROLLER://:9092",
            "PLAINTEXT://127.0.0.1:9092,CONTROLLER://[::1]:9092",
            "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.2:9092",
            "PLAINTEXT://:9092,PLAINTEXT://:9093,CONTROLLER://:9094",
            "plaintext://:9092,controller://:9093",
            "PLAINTEXT://:9092,CONTROLLER://:9093,OTHER://:9094",
            "PLAINTEXT://:0,CONTROLLER://:0",
            "PLAINTEXT://localhost,CONTROLLER://:9093",
            "PLAINTEXT://local host:9092,CONTROLLER://:9093",
            "PLAINTEXT:9092,CONTROLLER://:9093",
            "PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:9093",
            "PLAINTEXT://:99999999999,CONTROLLER://:9093",
            "SSL://:9092,CONTROLLER://:9093",
            "SASL_PLAINTEXT://:9092,CONTROLLER://:9093",
            ",",
        )
    ),
    {"advertised.listeners": "PLAINTEXT://example.org:19092"},
    {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"},
    {"advertised.listeners": "OTHER://example.org:9092"},
    {"advertised.listeners": "CONTROLLER://example.org:9092"},
    {"advertised.listeners": "PLAINTEXT://a:1,CONTROLLER://a:1"},
    {"controller.listener.names": "PLAINTEXT,CONTROLLER"},
    {"controller.listener.names": "CONTROLLER,SECOND"},
    {"controller.listener.names": "SECOND"},
    {"inter.broker.listener.name": "PLAINTEXT"},
    {"inter.broker.listener.name": "OTHER"},
    {"inter.broker.listener.name": "CONTROLLER"},
    {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
    {"security.inter.broker.protocol": "SSL"},
    {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"},
    {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
    {"listener.security.protocol.map": "PLAINTEXT:SECRET,CONTROLLER:PLAINTEXT"},
    {"listener.security.protocol.map": "PLAINTEXT"},
    {"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT", "inter.broker.listener.name": "PLAINTEXT"},
    {"early.start.listeners": "CONTROLLER"},
    {"early.start.listeners": "OTHER"},
    {"log.dirs": WITHOUT, "log.dir": "/c"},
    {"log.dirs": WITHOUT, "log.dir": ""},
    {"cordoned.log.dirs": "/a"},
    {"cordoned.log.dirs": "/a,/c"},
    {"cordoned.log.dirs": "*"},
    {"cordoned.log.dirs": "*,/a"},
    {"log.roll.ms": "0"},
    {"log.roll.jitter.ms": "-1"},
    {"log.retention.ms": "0"},
    {"log.retention.ms": "-7"},
    {"log.retention.minutes": "0"},
    {"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097152"},
    {"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097154"},
    {"replica.fetch.wait.max.ms": "30001"},
    {"replica.fetch.wait.max.ms": "30001", "replica.socket.timeout.ms": "40000"},
    {"queued.max.request.bytes": "5"},
    {"queued.max.request.bytes": "5", "socket.request.max.bytes": "5"},
    {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"},
    {"connections.max.idle.ms": "100"},
    {"connections.max.idle.ms": "-1", "connection.failed.authentication.delay.ms": "1000"},
    {"group.coordinator.rebalance.protocols": "consumer"},
    {"group.coordinator.rebalance.protocols": "classic"},
    {"group.coordinator.rebalance.protocols": "Classic"},
    *(
        {f"group.{kind}.{name}": value}
        for kind in ("consumer", "share", "streams")
        for name, value in (
            ("max.heartbeat.interval.ms", "4000"),
            ("heartbeat.interval.ms", "4000"),
            ("heartbeat.interval.ms", "16000"),
            ("min.session.timeout.ms", "61000"),
            ("session.timeout.ms", "44000"),
            ("session.timeout.ms", "61000"),
            ("max.assignment.interval.ms", "500"),
            ("min.assignment.interval.ms", "2000"),
            ("assignment.interval.ms", "16000"),
        )
    ),
    {"group.consumer.heartbeat.interval.ms": "45000", "group.consumer.max.heartbeat.interval.ms": "45000"},
    {"group.streams.num.standby.replicas": "3"},
    {"group.share.delivery.count.limit": "6", "group.share.max.delivery.count.limit": "5"},
    {"group.share.delivery.count.limit": "2", "group.share.min.delivery.count.limit": "3"},
    {"group.share.partition.max.record.locks": "3000", "group.share.max.partition.max.record.locks": "2500"},
    {"group.share.partition.max.record.locks": "200", "group.share.min.partition.max.record.locks": "300"},
    {"group.share.record.lock.duration.ms": "1000"},
    {"group.share.record.lock.duration.ms": "70000"},
    {"group.share.max.share.sessions": "199"},
    {"sasl.mechanism.inter.broker.protocol": "PLAIN", "security.inter.broker.protocol": "SASL_PLAINTEXT"},
    *(
        {
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": of_all,
            "listener.name.plaintext.sasl.enabled.mechanisms": of_listener,
        }
        for of_all, of_listener in (("PLAIN", "SCRAM-SHA-256"), ("SCRAM-SHA-256", "SCRAM-SHA-512, PLAIN"))
    ),
    {"unknown.name": "x"},
]  # fmt: skip


def sweep() -> Iterator[dict[str, str]]:
    """Yield configurations: each of them with each of VALUES."""
    for name, key in BROKER_KEYS.items():
        if key.type not in NOT_SWEPT:
            yield from ({name: value} for value in VALUES)


def with_base(changes: dict[str, str]) -> dict[str, str]:
    """A whole server.properties."""
    return {name: value for name, value in {**BASE, **changes}.items() if value != WITHOUT}


JUDGE = """
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;

public class Judge {
  public static void main(String[] arguments) throws Exception {
    var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    var out = new PrintStream(new FileOutputStream(arguments[0]), false, "UTF-8");
    for (String line; (line = in.readLine()) != null; ) {
      var properties = new Properties();
      String[] words = line.split("\\t", -1);
      for (int i = 1; i + 1 < words.length; i += 2) properties.setProperty(words[i], words[i + 1]);
      String verdict;
      try {
        var config = new KafkaConfig(properties, false);
        var key = KafkaConfig.configDef().configKeys().get(words[0]);
        var value = key == null ? null : config.valuesFromThisConfig().get(key.name);
        verdict = "ok\\t" + (value == null ? "" : ConfigDef.convertToString(value, key.type));
      } catch (Throwable refused) {
        verdict = "no\\t" + refused.getMessage();
      }
      out.println(verdict);
    }
    out.close();
  }
}
"""
