"""The calls of Connect's REST API that were recorded beside a real distributed worker, in their order.

A call is (method, path with query, body as text or as JSON, headers). A wait repeats a GET until a part of its JSON
answer has a value. {DIR} stands for a directory of the run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

JSON = {"Content-Type": "application/json"}
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
MIRROR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
CHECKPOINT = "org.apache.kafka.connect.mirror.MirrorCheckpointConnector"
HEARTBEAT = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"
CAST = "org.apache.kafka.connect.transforms.Cast$Value"
INSERT = "org.apache.kafka.connect.transforms.InsertField$Value"


class Call(NamedTuple):
    """A request. until: a wait, as (keys and indexes into the JSON answer, the value)."""

    method: str
    path: str
    body: str | None = None
    headers: Mapping[str, str] = {}
    until: tuple[list[Any], Any] | None = None


def call(method: str, path: str, body: object = None, **headers: str) -> Call:
    """Return a call with a JSON body; a text is sent as it is."""
    text = body if isinstance(body, str) or body is None else json.dumps(body)
    return Call(method, path, text, {**(JSON if text is not None else {}), **headers})


def wait(path: str, keys: list[Any], value: object) -> Call:
    """Return a wait."""
    return Call("GET", path, until=(keys, value))


def validate(plugin: str, properties: object) -> Call:
    """Return a call that validates a configuration."""
    return call("PUT", f"/connector-plugins/{plugin}/config/validate", properties)


def source(**more: str | None) -> dict[str, str | None]:
    """Return the configuration of a FileStream source; a dot in a name is written as __."""
    known = {"name": "lines", "connector.class": SOURCE, "file": "{DIR}/in.txt", "topic": "lines"}
    return {**known, **{key.replace("___", "-").replace("__", "."): value for key, value in more.items()}}


def sink(**more: str | None) -> dict[str, str | None]:
    """Return the configuration of a FileStream sink."""
    known = {"name": "out", "connector.class": "FileStreamSink", "file": "{DIR}/out.txt", "topics": "lines"}
    return {**known, **{key.replace("___", "-").replace("__", "."): value for key, value in more.items()}}


def mirror(kind: str, **more: str | None) -> dict[str, str | None]:
    """Return the configuration of a Mirror connector."""
    known = {"name": "m", "connector.class": kind, "source.cluster.alias": "a", "target.cluster.alias": "b"}
    return {**known, **{key.replace("___", "-").replace("__", "."): value for key, value in more.items()}}


VALIDATIONS = [
    validate("FileStreamSource", source()),
    validate("FileStreamSourceConnector", source(connector__class="FileStreamSource")),
    validate(SOURCE, {"connector.class": SOURCE}),
    validate(SOURCE, source(name="", tasks__max="0", errors__tolerance="some", errors__log__enable="maybe")),
    validate(SOURCE, source(tasks__max="many", batch__size="x", errors__retry__timeout="1.5", topic="")),
    *(
        validate(SOURCE, f'{{"name":"lines","connector.class":"{SOURCE}","topic":"lines","file":{each}}}')
        for each in (
            "1e999",
            "1.50",
            "-0",
            "-1E-2",
            "true",
            "9" * 900,
            "9" * 1001,
            "1." + "9" * 1001,
            "NaN",
            "-Infinity",
            "01",
        )
    ),
    validate(SOURCE, source(tasks__max="9" * 5000)),
    validate(SOURCE, source(name="a\tb", file=None, topic=None)),
    validate(SOURCE, source(exactly__once__support="sometimes", transaction__boundary="x")),
    validate(SOURCE, source(exactly__once__support="required")),
    validate(SOURCE, source(transaction__boundary="connector", transaction__boundary__interval__ms="-1")),
    validate(SOURCE, source(topic__creation__groups="a,a", offsets__storage__topic="")),
    validate(SOURCE, source(topic__creation__default__partitions="0")),
    validate(SOURCE, source(config__action__reload="perhaps", tasks__max__enforce="2")),
    validate(SOURCE, source(transforms="a,b,a", predicates="p,p")),
    validate(SOURCE, source(transforms="cast", transforms__cast__type=CAST)),
    validate(SOURCE, source(transforms="cast", transforms__cast__type=CAST, transforms__cast__spec="a:int32")),
    validate(SOURCE, source(transforms="t", transforms__t__type="no.such.Transform")),
    validate(SOURCE, source(transforms="t")),
    validate(SOURCE, source(transforms="t", transforms__t__type=SOURCE)),
    validate(
        SOURCE, source(transforms="i", transforms__i__type=INSERT, transforms__i__topic__field="x", unknown="ignored")
    ),
    validate(SOURCE, source(transforms="i", transforms__i__type=INSERT, transforms__i__negate="true")),
    validate(
        SOURCE,
        source(
            transforms="i",
            transforms__i__type=INSERT,
            transforms__i__predicate="p",
            predicates="p",
            predicates__p__type="org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        ),
    ),
    validate(SOURCE, source(key__converter="no.such.Converter", value__converter=SOURCE)),
    validate(
        SOURCE,
        source(
            value__converter="org.apache.kafka.connect.json.JsonConverter",
            value__converter__schemas__enable="x",
            value__converter__schemas__cache__size="many",
            header__converter="org.apache.kafka.connect.storage.SimpleHeaderConverter",
        ),
    ),
    validate(SOURCE, source(key__converter="org.apache.kafka.connect.storage.StringConverter")),
    validate(SOURCE, source(producer__override__acks="all", producer__override__linger__ms="x")),
    validate(SOURCE, source(producer__override__acks="all", producer__override__linger__ms="5")),
    validate(SOURCE, source(connector__plugin__version="1.0")),
    validate(SOURCE, source(connector__plugin__version="not a version(")),
    validate(SOURCE, source(connector__class=SINK)),
    validate("FileStreamSink", source(connector__class="NoSuch")),
    validate("NoSuch", {"connector.class": "NoSuch"}),
    validate(SOURCE, {}),
    validate(SOURCE, "{"),
    validate(SOURCE, "[]"),
    validate(SOURCE, '{"name": {"a": 1}, "connector.class": "x"}'),
    validate(SOURCE, {"connector.class": SOURCE, "tasks.max": 3, "topic": True}),
    validate("FileStreamSink", sink()),
    validate("FileStreamSink", sink(topics=None)),
    validate("FileStreamSink", {"connector.class": "FileStreamSink", "name": "n"}),
    validate("FileStreamSink", sink(topics__regex="l.*")),
    validate("FileStreamSink", sink(topics="", topics__regex="l(")),
    validate("FileStreamSink", sink(topics="a,a")),
    validate("FileStreamSink", sink(topics="a,,b")),
    validate("FileStreamSink", sink(errors__deadletterqueue__topic__name="lines")),
    validate("FileStreamSink", sink(topics="", topics__regex="d.*", errors__deadletterqueue__topic__name="dlq")),
    validate(
        "FileStreamSink",
        sink(
            errors__deadletterqueue__topic__name="dlq",
            errors__deadletterqueue__topic__replication__factor="x",
            errors__deadletterqueue__context__headers__enable="y",
            consumer__override__max__poll__records="1",
            admin__override__retries="2",
        ),
    ),
    validate(MIRROR, mirror(MIRROR)),
    validate(MIRROR, {"connector.class": MIRROR}),
    validate(
        MIRROR,
        mirror(
            MIRROR,
            topics="a(,b",
            replication__factor="x",
            offset__lag__max="y",
            offset___syncs__topic__location="nowhere",
            sync__topic__configs__enabled="1",
            replication__policy__class="no.Such",
            security__protocol="TELNET",
        ),
    ),
    validate(MIRROR, mirror(MIRROR, exactly__once__support="required", topics="")),
    validate(MIRROR, mirror(MIRROR, emit__offset___syncs__enabled="false")),
    validate(CHECKPOINT, mirror(CHECKPOINT)),
    validate(
        CHECKPOINT,
        mirror(CHECKPOINT, emit__checkpoints__interval__seconds="soon", groups="", sync__group__offsets__enabled="x"),
    ),
    validate(
        CHECKPOINT,
        mirror(CHECKPOINT, emit__checkpoints__enabled="false", sync__group__offsets__enabled="false"),
    ),
    validate(HEARTBEAT, mirror(HEARTBEAT)),
    validate(HEARTBEAT, mirror(HEARTBEAT, heartbeats__topic__replication__factor="0", metric__names__formats="old")),
    call("GET", "/connector-plugins"),
    call("GET", "/connector-plugins?connectorsOnly=false"),
    call("GET", "/connector-plugins?connectorsOnly=perhaps"),
    call("GET", f"/connector-plugins/{SOURCE}/config"),
    call("GET", "/connector-plugins/FileStreamSink/config"),
    call("GET", "/connector-plugins/JsonConverter/config"),
    call("GET", "/connector-plugins/SimpleHeaderConverter/config"),
    call("GET", f"/connector-plugins/{CAST}/config"),
    call("GET", "/connector-plugins/TopicNameMatches/config"),
    call("GET", "/connector-plugins/NoSuch/config"),
    call("GET", "/connector-plugins/java.lang.String/config"),
    call("POST", "/connector-plugins", {}),
    call("GET", "/connector-plugins/FileStreamSink"),
    call("GET", "/connector-plugins/FileStreamSink/config/validate"),
]
"""Calls that need no connector."""

RUNNING = ["connector", "state"], "RUNNING"
TASK_RUNNING = ["tasks", 0, "state"], "RUNNING"


def place(topic: Any, partition: Any) -> dict[str, Any]:
    """The partition of a sink's offset."""
    return {"kafka_topic": topic, "kafka_partition": partition}


CALLS = [
    call("GET", "/"),
    call("GET", "/health"),
    call("HEAD", "/"),
    call("OPTIONS", "/"),
    call("POST", "/", {}),
    call("GET", "/nothing"),
    call("GET", "/connectors"),
    call("GET", "/connectors/"),
    call("GET", "/connectors?expand=status"),
    call("GET", "/connectors/none"),
    call("GET", "/connectors/none/config"),
    call("GET", "/connectors/none/status"),
    call("GET", "/connectors/none/tasks"),
    call("GET", "/connectors/none/tasks/0/status"),
    call("GET", "/connectors/none/tasks/x/status"),
    call("GET", "/connectors/none/tasks-config"),
    call("GET", "/connectors/none/topics"),
    call("GET", "/connectors/none/offsets"),
    call("PUT", "/connectors/none/topics/reset"),
    call("PUT", "/connectors/none/pause"),
    call("PUT", "/connectors/none/resume"),
    call("PUT", "/connectors/none/stop"),
    call("POST", "/connectors/none/restart"),
    call("POST", "/connectors/none/restart?includeTasks=true"),
    call("POST", "/connectors/none/tasks/0/restart"),
    call("PATCH", "/connectors/none/config", {"a": "b"}),
    call("PATCH", "/connectors/none/offsets", {"offsets": [{"partition": {"a": 1}, "offset": None}]}),
    call("DELETE", "/connectors/none/offsets"),
    call("DELETE", "/connectors/none"),
    call("PUT", "/connectors/none", {}),
    call("PUT", "/connectors", {}),
    call("POST", "/connectors", ""),
    call("POST", "/connectors", "{"),
    call("POST", "/connectors", "[]"),
    call("POST", "/connectors", "null"),
    call("POST", "/connectors", '"text"'),
    call("POST", "/connectors", {}),
    call("POST", "/connectors", {"name": "lines"}),
    call("POST", "/connectors", {"name": "lines", "config": {}}),
    call("POST", "/connectors", {"name": "lines", "config": {"connector.class": "NoSuch"}}),
    call("POST", "/connectors", {"name": "lines", "config": {"connector.class": SOURCE}}),
    call("POST", "/connectors", {"name": "lines", "config": source(name="other")}),
    call("POST", "/connectors", {"name": "lines", "config": source(tasks__max="0", errors__tolerance="x")}),
    call("POST", "/connectors", {"name": "lines", "config": source(), "unknown": 1}),
    call("POST", "/connectors", {"name": "lines", "config": source(), "initial_state": "ASLEEP"}),
    call("POST", "/connectors", {"config": {"connector.class": SOURCE, "topic": "lines"}}),
    call("POST", "/connectors", {"name": "a b", "config": {"connector.class": SOURCE, "topic": "x", "file": "x"}}),
    wait("/connectors/a%20b/status", *RUNNING),
    call("GET", "/connectors/a%20b/config"),
    call("DELETE", "/connectors/a%20b"),
    call("POST", "/connectors", json.dumps({"name": "lines", "config": source()}), **{"Content-Type": "text/plain"}),
    call("POST", "/connectors", {"name": "lines", "config": source()}, Accept="text/html"),
    call("POST", "/connectors", {"name": " lines ", "config": source()}),
    wait("/connectors/lines/status", *RUNNING),
    wait("/connectors/lines/status", *TASK_RUNNING),
    call("GET", "/connectors"),
    call("GET", "/connectors/lines"),
    call("GET", "/connectors/lines/"),
    call("GET", "/connectors/lines/config"),
    call("GET", "/connectors/lines/status"),
    call("GET", "/connectors/lines/tasks"),
    call("GET", "/connectors/lines/tasks-config"),
    call("GET", "/connectors/lines/tasks/0/status"),
    call("GET", "/connectors/lines/tasks/1/status"),
    call("GET", "/connectors/lines/tasks/0"),
    call("GET", "/connectors?expand=status&expand=info"),
    call("GET", "/connectors?expand=info"),
    call("GET", "/connectors?expand=all"),
    call("POST", "/connectors", {"name": "lines", "config": source()}),
    call("POST", "/connectors/lines", {}),
    call("PUT", "/connectors/lines/config", source(name="other")),
    call("PUT", "/connectors/lines/config", source(tasks__max="x")),
    call("PUT", "/connectors/lines/config", "{"),
    call("PUT", "/connectors/lines/config", source(batch__size="10")),
    wait("/connectors/lines/tasks", [0, "config", "batch.size"], "10"),
    wait("/connectors/lines/status", *TASK_RUNNING),
    call("PATCH", "/connectors/lines/config", {"batch.size": None, "tasks.max": "2"}),
    call("GET", "/connectors/lines/config"),
    call("PATCH", "/connectors/lines/config", {"topic": None}),
    call("PATCH", "/connectors/lines/config", {"name": "other"}),
    wait("/connectors/lines/topics", ["lines", "topics", 0], "lines"),
    call("GET", "/connectors/lines/topics"),
    wait("/connectors/lines/offsets", ["offsets", 0, "offset", "position"], 13),
    call("GET", "/connectors/lines/offsets"),
    call("PATCH", "/connectors/lines/offsets", {"offsets": []}),
    call(
        "PATCH",
        "/connectors/lines/offsets",
        {"offsets": [{"partition": {"filename": "{DIR}/in.txt"}, "offset": {"position": 6}}]},
    ),
    call("DELETE", "/connectors/lines/offsets"),
    call("PUT", "/connectors/lines/pause"),
    wait("/connectors/lines/status", ["tasks", 0, "state"], "PAUSED"),
    wait("/connectors/lines/status", ["connector", "state"], "PAUSED"),
    call("GET", "/connectors/lines/status"),
    call("PUT", "/connectors/lines/pause"),
    call("GET", "/connectors/lines/pause"),
    call("PUT", "/connectors/lines/resume"),
    wait("/connectors/lines/status", *TASK_RUNNING),
    wait("/connectors/lines/status", *RUNNING),
    call("POST", "/connectors/lines/restart"),
    wait("/connectors/lines/status", *RUNNING),
    call("POST", "/connectors/lines/restart?includeTasks=true&onlyFailed=true"),
    call("POST", "/connectors/lines/restart?includeTasks=maybe"),
    call("POST", "/connectors/lines/restart?onlyFailed=true"),
    call("POST", "/connectors/lines/restart?includeTasks=true"),
    wait("/connectors/lines/status", *TASK_RUNNING),
    call("POST", "/connectors/lines/tasks/0/restart"),
    wait("/connectors/lines/status", *TASK_RUNNING),
    call("POST", "/connectors/lines/tasks/7/restart"),
    call("POST", "/connectors/lines/tasks/x/restart"),
    call("PUT", "/connectors/lines/topics/reset"),
    wait("/connectors/lines/topics", ["lines", "topics"], []),
    call("GET", "/connectors/lines/topics"),
    call("PUT", "/connectors/lines/stop"),
    wait("/connectors/lines/status", ["connector", "state"], "STOPPED"),
    wait("/connectors/lines/status", ["tasks"], []),
    call("GET", "/connectors/lines/status"),
    call("GET", "/connectors/lines/tasks"),
    call("PUT", "/connectors/lines/stop"),
    call("PATCH", "/connectors/lines/offsets", "{"),
    call("PATCH", "/connectors/lines/offsets", {}),
    call("PATCH", "/connectors/lines/offsets", {"offsets": [{"offset": {"position": 6}}]}),
    call(
        "PATCH", "/connectors/lines/offsets", {"offsets": [{"partition": {"filename": 5}, "offset": {"position": 6}}]}
    ),
    call(
        "PATCH",
        "/connectors/lines/offsets",
        {"offsets": [{"partition": {"filename": "{DIR}/in.txt"}, "offset": {"position": -6}}]},
    ),
    *(
        call(
            "PATCH", "/connectors/lines/offsets", f'{{"offsets":[{{"partition":{{"filename":"a"}},"offset":{each}}}]}}'
        )
        for each in (
            '{"position":1000000000000000000000000000000}',
            '{"position":9223372036854775808}',
            '{"position":-9223372036854775809}',
            '{"position":1e999}',
            '{"position":[1]}',
            '{"position":{"a":1}}',
            '{"position":true}',
            '{"position":null}',
            '{"position":NaN}',
            '{"other":[]}',
        )
    ),
    call("PATCH", "/connectors/lines/offsets", {"offsets": [{"partition": {"filename": ["a"]}, "offset": None}]}),
    call(
        "PATCH",
        "/connectors/lines/offsets",
        {"offsets": [{"partition": {"filename": "{DIR}/in.txt"}, "offset": {"position": 6}}]},
    ),
    call("GET", "/connectors/lines/offsets"),
    call("DELETE", "/connectors/lines/offsets"),
    call("GET", "/connectors/lines/offsets"),
    call("PUT", "/connectors/lines/resume"),
    wait("/connectors/lines/status", *TASK_RUNNING),
    call("POST", "/connectors", {"name": "asleep", "config": source(name="asleep"), "initial_state": "STOPPED"}),
    wait("/connectors/asleep/status", ["connector", "state"], "STOPPED"),
    call("GET", "/connectors/asleep/status"),
    call("GET", "/connectors/asleep"),
    call("DELETE", "/connectors/asleep"),
    call("PUT", "/connectors/out/config", sink()),
    wait("/connectors/out/status", *TASK_RUNNING),
    call("GET", "/connectors/out/status"),
    call("GET", "/connectors/out"),
    call("PUT", "/connectors/out/stop"),
    wait("/connectors/out/status", ["tasks"], []),
    call(
        "PATCH",
        "/connectors/out/offsets",
        {"offsets": [{"partition": {"kafka_topic": "lines", "kafka_partition": 0}, "offset": {"kafka_offset": 1}}]},
    ),
    call("GET", "/connectors/out/offsets"),
    call("PATCH", "/connectors/out/offsets", {"offsets": [{"partition": {"topic": "lines"}, "offset": None}]}),
    call(
        "PATCH",
        "/connectors/out/offsets",
        {"offsets": [{"partition": {"kafka_topic": "lines", "kafka_partition": 0}, "offset": {"kafka_offset": "x"}}]},
    ),
    *(
        call("PATCH", "/connectors/out/offsets", {"offsets": [{"partition": place(*at), "offset": offset}]})
        for at, offset in (
            (("", 0), {"kafka_offset": 1}),
            (("", 0), None),
            (("a b", 0), {"kafka_offset": 1}),
            (("lines", -1), {"kafka_offset": 1}),
            (("lines", -1), None),
            (("lines", True), {"kafka_offset": 1}),
            (("lines", 1.0), {"kafka_offset": 1}),
            (("lines", 0), {"kafka_offset": -5}),
            (("lines", 0), {"kafka_offset": None}),
            (("lines", 0), {"kafka_offset": True}),
            (("lines", 0), {"kafka_offset": 1e30}),
            (("lines", 0), {"kafka_offset": [1, None]}),
            (("lines", 0), {"kafka_offset": {"a": None}}),
            (("lines", 0), {"kafka_offset": "2"}),
        )
    ),
    call("GET", "/connectors/out/offsets"),
    call("DELETE", "/connectors/out/offsets"),
    call("GET", "/connectors/out/offsets"),
    call("DELETE", "/connectors/out"),
    call("DELETE", "/connectors/out"),
    wait("/connectors/out/status", ["error_code"], 404),
    call("PUT", "/connectors/bad/config", sink(name="bad", file="{DIR}/missing/out.txt")),
    wait("/connectors/bad/status", ["tasks", 0, "state"], "FAILED"),
    call("DELETE", "/connectors/bad"),
    call("GET", "/admin/loggers"),
    call("GET", "/admin/loggers/root"),
    call("GET", "/admin/loggers/no.such.logger"),
    call("PUT", "/admin/loggers/a.b", {"level": "debug"}),
    call("GET", "/admin/loggers/a.b"),
    call("PUT", "/admin/loggers/a.b", {"level": "LOUD"}),
    call("PUT", "/admin/loggers/a.b", {}),
    call("PUT", "/admin/loggers/a.b", "{"),
    call("PUT", "/admin/loggers/a.c?scope=cluster", {"level": "WARN"}),
    call("PUT", "/admin/loggers/a.d?scope=moon", {"level": "WARN"}),
    call("POST", "/admin/loggers/a.b", {"level": "WARN"}),
    call("POST", "/connectors/lines/tasks", []),
    call("PUT", "/connectors/lines/fence"),
    call("GET", "/connectors/lines/fence"),
    call("DELETE", "/connectors/lines?forward=false"),
    call("GET", "/connectors"),
]
"""Calls in the life of a source and a sink of files."""
