"""Questions to Kafka's converters, transforms and predicates, and what kcli.connect answers.

A set of questions is made from a seed. What Kafka answered to the set of SAMPLE is in the folder answers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from kcli.connect.config.config_def import ConfigError
from kcli.connect.converters.plugins import CONVERTERS, HEADER_CONVERTERS
from kcli.connect.data.errors import ILLEGAL_ARGUMENT, JavaError, class_of
from kcli.connect.data.parsing import parse
from kcli.connect.data.records import SchemaAndValue, SourceRecord
from kcli.connect.processing.failures import ErrorHandling, Failure, Message, Stage, dead_letter, log_line
from kcli.connect.transforms.plugins import PREDICATES, TRANSFORMS
from kcli.java.dates import BadDate, BadPattern, DateFormat
from tests.connect import random_data as data
from tests.connect.wire import record_of, record_to, schema_of, schema_to, value_of, value_to

Json = Any
ANSWERS = Path(__file__).with_name("answers")
SAMPLE = 1
CONFIG_EXCEPTION = "org.apache.kafka.common.config.ConfigException"
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


def question(ask: str, cases: list[Json], kind: str | None = None, /, **config: str) -> Json:
    made: dict[str, Json] = {"ask": ask, "config": config, "cases": cases}
    return made | ({"class": kind} if kind else {})


def answer(asked: Json) -> Json:
    """Return what kcli.connect answers."""
    return _tried(lambda: _answers(asked))


def _tried(ask: Callable[[], Json]) -> Json:
    try:
        return ask()
    except ConfigError as error:
        return {"error": [CONFIG_EXCEPTION, str(error)]}
    except BadPattern as error:
        return {"error": [ILLEGAL_ARGUMENT, str(error)]}
    except BadDate as error:
        return {"error": ["java.text.ParseException", f'Unparseable date: "{error}"']}
    except Exception as error:
        if not hasattr(error, "java_class"):
            raise
        return {"error": [class_of(error), str(error) or None]}


def _answers(asked: Json) -> Json:
    make = _MAKERS[asked["ask"]]
    handle = make(asked)
    return [_tried(lambda each=each: handle(each)) for each in asked["cases"]]  # type: ignore[misc]


def _pair(made: SchemaAndValue) -> Json:
    return [schema_to(made.schema), value_to(made.value, made.schema)]


def _bytes(told: str | None) -> bytes | None:
    return None if told is None else bytes.fromhex(told)


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _converter(asked: Json) -> Any:
    return CONVERTERS[asked["class"]].load()(asked["config"])


def _from(asked: Json) -> Callable[[Json], Json]:
    converter = _converter(asked)
    return lambda each: _hex(converter.from_connect("t", schema_of(each[0]), value_of(each[1])))


def _to(asked: Json) -> Callable[[Json], Json]:
    converter = _converter(asked)
    return lambda each: _pair(converter.to_connect("t", _bytes(each)))


def _from_header(asked: Json) -> Callable[[Json], Json]:
    converter = _header_converter(asked)
    return lambda each: _hex(converter.from_connect_header("t", "h", schema_of(each[0]), value_of(each[1])))


def _to_header(asked: Json) -> Callable[[Json], Json]:
    converter = _header_converter(asked)
    return lambda each: _pair(converter.to_connect_header("t", "h", _bytes(each)))


def _header_converter(asked: Json) -> Any:
    return HEADER_CONVERTERS[asked["class"]].load()(asked["config"])


def _parse_header(asked: Json) -> Callable[[Json], Json]:
    del asked
    return lambda each: _pair(SchemaAndValue(*parse(each)))


def _format(asked: Json) -> Callable[[Json], Json]:
    return lambda each: DateFormat(asked["pattern"]).format(each)


def _parse_date(asked: Json) -> Callable[[Json], Json]:
    date_format = DateFormat(asked["pattern"])
    return lambda each: date_format.parse(each, time.time_ns() // 1_000_000)


def _transform(asked: Json) -> Callable[[Json], Json]:
    transform = TRANSFORMS[asked["class"]].load()(asked["config"])
    return lambda each: record_to(transform.apply(record_of(each)))


def _test(asked: Json) -> Callable[[Json], Json]:
    predicate = PREDICATES[asked["class"]].load()(asked["config"])
    return lambda each: predicate.test(record_of(each))


def _message(told: Json) -> Message:
    headers = tuple((key, _bytes(value)) for key, value in told["headers"])
    return Message(
        told["topic"],
        _bytes(told["key"]),
        _bytes(told["value"]),
        told["partition"],
        told["timestamp"],
        headers,
        told["offset"],
    )


def _failure(told: Json) -> Failure:
    return Failure(Stage[told["stage"]], told["class"], JavaError(told["error"][0], told["error"][1] or ""))


def _dead_letter(asked: Json) -> Callable[[Json], Json]:
    del asked
    return _headers_of_dead_letter


def _headers_of_dead_letter(told: Json) -> Json:
    message = _message(told["message"])
    with_headers = "errors.deadletterqueue.context.headers.enable"
    handling = ErrorHandling.of({"errors.deadletterqueue.topic.name": "dead", with_headers: "true"})
    letter = dead_letter(handling, told["connector"], told["task"], message, _failure(told))
    assert (letter.topic, letter.key, letter.value) == ("dead", message.key, message.value)
    return [[key, _hex(value and value.removesuffix(b"\n"))] for key, value in letter.headers]


def _log_line(asked: Json) -> Callable[[Json], Json]:
    del asked
    return _text_of_log


def _text_of_log(told: Json) -> Json:
    of_source = isinstance(told["message"].get("value"), list)
    record = record_of(told["message"]) if of_source else _message(told["message"])
    assert isinstance(record, Message | SourceRecord)
    line = log_line("c-0", _failure(told), record if told["details"] else None)
    return line.removeprefix("Error encountered in task c-0. ")


_MAKERS: dict[str, Callable[[Json], Callable[[Json], Json]]] = {
    "from": _from,
    "to": _to,
    "from_header": _from_header,
    "to_header": _to_header,
    "parse_header": _parse_header,
    "format": _format,
    "parse_date": _parse_date,
    "transform": _transform,
    "test": _test,
    "dead_letter": _dead_letter,
    "log_line": _log_line,
}


def values(rng: Random, count: int) -> list[Json]:
    """Return cases of values with a schema, and some without, or with one that is not theirs."""
    cases = []
    for _ in range(count):
        of = data.schema(rng, 3) if rng.random() < 0.8 else None
        told = data.without_schema(rng) if of is None or rng.random() < 0.05 else data.value(rng, of)
        if of is not None and told is not None and told[0] in ("i64", "f64"):
            told = data.value(rng, of)  # in Python it fits each width
        if of is not None and rng.random() < 0.05:
            told = None
        cases.append([of, told])
    return cases


JSON_TEXTS = [
    "", " ", "1", "null", "true", "007", "[007, -01]", "1.50", "1e400", "-1E-5", '"a"', "[", "{", '{"a":1}x', "1 2",
    "1x", "truex", "NaN", "[1,]", '"\\ud83d\\ude00 \\u00e9"', '"\x01"', "'a'", "\ufeff1", "9223372036854775808",
    "{\"a\":1,\"a\":2}", "[[[[]]]]", "12345678901234567890123", '{"schema":null,"payload":1}',
    '{"schema":1,"payload":1}',
    '{"schema":{"type":"int8"},"payload":300}', '{"schema":{"type":"int32","optional":true},"payload":null}',
    '{"schema":{"type":"int32"},"payload":null}', '{"schema":{"type":"int32"},"payload":"5"}',
    '{"schema":{"type":"int32"},"payload":5.9}', '{"schema":{"type":"int64"},"payload":1e30}',
    '{"schema":{"type":"string"},"payload":5}', '{"schema":{"type":"boolean"},"payload":"true"}',
    '{"schema":{"type":"float"},"payload":0.1}', '{"schema":{"type":"double"},"payload":1}',
    '{"schema":{"type":"bytes"},"payload":"AQI="}', '{"schema":{"type":"bytes"},"payload":"A!"}',
    '{"schema":{"type":"bytes"},"payload":1}', '{"schema":{"type":"bytes"},"payload":"AQ"}',
    '{"schema":{"type":"bytes"},"payload":"AQI=\\n"}',
    '{"schema":{"type":"array"},"payload":[]}', '{"schema":{"type":"array","items":{"type":"int8"}},"payload":{"a":1}}',
    '{"schema":{"type":"array","items":{"type":"int8"}},"payload":5}',
    '{"schema":{"type":"map","keys":{"type":"string"},"values":{"type":"int8"}},"payload":{"b":1,"a":2}}',
    '{"schema":{"type":"map","keys":{"type":"string"},"values":{"type":"int8"}},"payload":[]}',
    '{"schema":{"type":"map","keys":{"type":"int8"},"values":{"type":"int8"}},"payload":{}}',
    '{"schema":{"type":"map","keys":{"type":"int8"},"values":{"type":"int8"}},"payload":[[1,2],[3,4]]}',
    '{"schema":{"type":"map","keys":{"type":"int8"},"values":{"type":"int8"}},"payload":[[1]]}',
    '{"schema":{"type":"map","keys":{"type":"int8"},"values":{"type":"int8"}},"payload":[1]}',
    '{"schema":{"type":"map","values":{"type":"int8"}},"payload":[]}',
    '{"schema":{"type":"map","keys":{"type":"int8"}},"payload":[]}',
    '{"schema":{"type":"map","keys":null,"values":{"type":"int8"}},"payload":[]}',
    '{"schema":{"type":"struct"},"payload":{}}', '{"schema":{"type":"struct","fields":[{"type":"int8"}]},"payload":{}}',
    '{"schema":{"type":"struct","fields":[1]},"payload":{}}',
    '{"schema":{"type":"struct","fields":[{"field":"a","type":"int8"}]},"payload":{}}',
    '{"schema":{"type":"struct","fields":[{"field":"a","type":"int8"}]},"payload":[]}',
    '{"schema":{"type":"struct","fields":[{"field":"a","type":"string"}]},"payload":{"a":1}}',
    '{"schema":{"type":"struct","fields":[{"field":"","type":"string"}]},"payload":{"a":1}}',
    '{"schema":{"type":"struct","fields":[{"field":"a","type":"int8"},{"field":"a","type":"int8"}]},"payload":{}}',
    '{"schema":{"type":"struct","fields":[{"field":"a","type":"int8","default":7}]},"payload":{"b":2}}',
    '{"schema":{"type":"struct","fields":[],"default":{}},"payload":{}}',
    '{"schema":{"type":"struct","fields":[],"optional":true,"default":null},"payload":null}',
    '{"schema":{"type":"int8","default":"x","version":1.5,"name":5,"doc":false,"parameters":[]},"payload":1}',
    '{"schema":{"type":"int8","default":null},"payload":1}', '{"schema":{"type":"string","default":1},"payload":"a"}',
    '{"schema":{"type":"int8","version":4294967297,"parameters":{}},"payload":1}',
    '{"schema":{"type":"int8","parameters":{"a":1}},"payload":1}', '{"schema":{"type":"int9"},"payload":1}',
    '{"schema":{"type":"int8"},"payload":1,"more":2}', '{"schema":{"type":"int8"}}', '{"schema":{},"payload":1}',
    *(
        f'{{"schema":{{"type":"{kind}","name":"org.apache.kafka.connect.data.{name}","parameters":{{"scale":"2"}}}},'
        f'"payload":{payload}}}'
        for kind, name in [("bytes", "Decimal"), ("int32", "Date"), ("int32", "Time"), ("int64", "Timestamp")]
        for payload in ["5", "1.50", '"AQI="', '"?"', '""', "true", "5000000000", "-1", "90000000", "[]"]
    ),
    '{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal"},"payload":"AQI="}',

    '{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"x"}},"payload":"AQ=="}',
]  # fmt: skip


def json_questions(rng: Random) -> Iterator[Json]:
    """Questions to JsonConverter."""
    kinds: list[dict[str, str]] = [
        {},
        {"schemas.enable": "false"},
        {"decimal.format": "numeric", "replace.null.with.default": "false"},
        {"schemas.enable": "false", "schemas.cache.size": "0", "replace.null.with.default": "false"},
    ]
    for config in kinds:
        about = {"converter.type": "value"} | config
        cases = values(rng, 60)
        yield question("from", cases, JSON_CONVERTER, **about)
        texts = [text.encode().hex() for text in JSON_TEXTS] + [None, "ff", "80"]
        yield question("to", texts, JSON_CONVERTER, **about)
        asked = answer(question("from", cases, JSON_CONVERTER, **about))
        yield question("to", [each for each in asked if not isinstance(each, dict)], JSON_CONVERTER, **about)
    about = {"converter.type": "value"}
    for _ in range(5):  # one schema after the other, and then JSON that only begins like it
        of = data.schema(rng, 2, "STRUCT")
        made = answer(question("from", [[of, data.value(rng, of)] for _ in range(6)], JSON_CONVERTER, **about))
        written = [bytes.fromhex(each) for each in made if isinstance(each, str)]
        more = [each[:-1] + end for each in written[:1] for end in (b"", b" }", b',"a":1}', b"}}", b"x")]
        yield question("to", [each.hex() for each in [*written, *more, *written]], JSON_CONVERTER, **about)
    for content in [
        "",
        '{"type":"int8"}',
        "{",
        "[]",
        '{"type":"struct","fields":[{"field":"a","type":"int8"}]}',
        "null",
    ]:
        texts = [text.encode().hex() for text in ["1", '{"a":1}', "null", '{"schema":{"type":"int8"},"payload":1}']]
        yield question("to", texts, JSON_CONVERTER, **{"converter.type": "value", "schema.content": content})
    for config in [
        {},
        {"converter.type": "x"},
        {"schemas.enable": "1"},
        {"decimal.format": "hex"},
        {"schemas.cache.size": "a"},
    ]:
        yield question("to", [], JSON_CONVERTER, **({"converter.type": "key"} | config if config else config))


YEAR_ONE_MS = -62_000_000_000_000
PATTERNS = [
    "yyyyMMdd", "yyyy-MM-dd HH:mm:ss.SSS", "yyyy-MM-dd'T'HH:mm:ssXXX", "yy/M/d h:m:s a", "EEE, d MMM yyyy HH:mm:ss Z",
    "EEEE MMMM dd", "G yyyy", "D yyyy", "YYYY-'W'ww-u", "K:mm a, z", "zzzz", "kk:mm", "S", "SSSSSS", "X", "XX", "w",
    "''yyyy''", "'o''clock' h", "hhmmss", "yyyyy", "y", "yyy", "M", "MM", "MMM", "L LL LLL LLLL", "E", "u", "",
    "ddMMyy",
    "yyyyMMddHHmmssSSS", "H H", "yyyy MMM", "HH a", "h",
]  # fmt: skip
DATES = [
    "20210506", "2021-05-06 07:08:09.010", "2021-05-06T07:08:09+02:00", "2021-05-06T07:08:09Z", "21/5/6 7:8:9 PM",
    "Thu, 6 May 2021 07:08:09 +0130", "Thursday May 06", "AD 2021", "BC 44", "126 2021", "2021-W18-4", "0:30 PM, UTC",
    "0:30 am, GMT+2:00", "24:00", "010", "+02", "-0330", "", " 2021", "20211332", "2021-13-45 25:61:61.1000", "-5",
    "'2021'", "o'clock 12", "123456", "99999", "5", "may", "MAY 2", "Sunday", "7", "060521", "20210506070809010",
    "5 6", "2021 june", "07 pm", "12", "9999999999999", "٣", "1582-10-10 00:00:00.0", "2021-05-06T07:08:09+2", "UTC",
    "21-5-6 7:8:9.5", "99/1/1 1:1:1 AM", "0000-00-00 00:00:00.000", "-2021-05-06 07:08:09.010", "2021-5--6 0:0:0.0",
]  # fmt: skip


def date_questions(rng: Random) -> Iterator[Json]:
    """Questions to SimpleDateFormat."""
    moments = [0, -1, 86_400_000, -12_219_292_800_000, -12_219_292_800_001, -62_135_769_600_001, 253_402_300_800_000]
    moments += [rng.randrange(-(2**48), 2**45) for _ in range(20)] + [rng.randrange(2**41) for _ in range(20)]
    for pattern in [*PATTERNS, "b", "'", "yyyy'", "XXXX", "yyyyTMM", "{yyyy}"]:
        asked = [each for each in moments if "Y" not in pattern or each > YEAR_ONE_MS]  # week years are of our time
        yield question("format", asked) | {"pattern": pattern}
    yield question("format", moments[:3] + moments[-40:]) | {"pattern": "W F w"}
    for pattern in [each for each in PATTERNS if not set(each) & set("WF")]:
        yield question("parse_date", DATES) | {"pattern": pattern}


PIECES = [
    *data.WORDS, "[", "]", "{", "}", ",", ":", '"', "\\", "\\:", " ", "1", "-1", "200", "40000", "3000000000", "1.5",
    "1e40", "1e400",
    "a", "true", "false", "null", "[1,2]", "[1,2.5]", '["a","b"]', '{"a":1}', '{"a":null}', '{1:"x",300:"y"}',
    "[null]", "[1,null]",
    "2021-05-06T07:08:09.010Z", "2021-05-06", "07:08:09.010Z", '"07:08:09.010Z"', "+", "1.", ".5", "5.0", "1E3",
    "100e-2", "١",
    "9223372036854775807", "9223372036854775808", "-9223372036854775809", "0e5", "1e5000000000", "[]", "{}", "0.0",
    "[true,1]",
    "\t", "[[1],[2]]", "[ 1 , 2 ]", '{"a":[1,2],"b":[]}', "[1", "1]", "{1:}", "{:1}", "{a:1}", "[,]", "[1,]", '"a"',
]  # fmt: skip


def header_questions(rng: Random) -> Iterator[Json]:
    """Questions to Values.parseString and SimpleHeaderConverter."""
    texts = [*PIECES, *("".join(rng.choices(PIECES, k=rng.randrange(2, 7))) for _ in range(300))]
    texts = [each for each in texts if "{[" not in each and "{{" not in each]
    yield question("parse_header", texts)
    kind = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    yield question("to_header", [None, "", "ff", "5b31", *(each.encode().hex() for each in PIECES)], kind)
    yield question("from_header", values(rng, 150), kind)


def plain_questions(rng: Random) -> Iterator[Json]:
    """Questions to the other converters of Kafka."""
    room = "org.apache.kafka.connect.converters."
    blobs = [
        None,
        "",
        "00",
        "01",
        "02",
        "ffff",
        "00000005",
        "fffffffffffffff0",
        "3fc00000",
        "3ff8000000000000",
        "c3",
        "c3a4",
        "616263",
    ]
    for name in ("ByteArray", "Boolean", "Double", "Float", "Integer", "Long", "Short"):
        kind = f"{room}{name}Converter"
        about = {"converter.type": rng.choice(["key", "value"])}
        typed = {"ByteArray": "BYTES", "Boolean": "BOOLEAN", "Double": "FLOAT64", "Float": "FLOAT32"}
        of = {"type": typed.get(name, {"Integer": "INT32", "Long": "INT64", "Short": "INT16"}.get(name, "INT8"))}
        fitting = [[of, data.value(rng, of)] for _ in range(20)]
        others = [each for each in values(rng, 40) if each[0] is None or each[0]["type"] not in data.PRIMITIVES[:6]]
        yield question("from", [*fitting, *others, [None, None]], kind, **about)
        yield question("to", blobs, kind, **about)
        yield question("from_header", fitting, kind, **about)
    kind = "org.apache.kafka.connect.storage.StringConverter"
    cases = [[None, ["str", "\ud800x"]], *(each for each in values(rng, 150) if '"bytes"' not in json.dumps(each[1]))]
    for encoding in (
        {},
        {"converter.encoding": "ISO-8859-1"},
        {"converter.encoding": "UTF-16"},
        {"converter.encoding": "x"},
    ):
        yield question("from", cases, kind, **{"converter.type": "value"} | encoding)
        yield question("to", blobs, kind, **{"converter.type": "value"} | encoding)
    yield question("to", [], kind)


TRANSFORM_ROOM = "org.apache.kafka.connect.transforms."
CONFIGURATIONS = Path(__file__).with_name("configurations.txt")
"""A line has the name of a transform or predicate, and a configuration."""
RECORDS = 5
UNTOPICAL = ("RegexRouter", "TimestampRouter")


def configurations(*, of_predicates: bool) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the class and a configuration of all transforms, or all predicates."""
    for line in CONFIGURATIONS.read_text().splitlines():
        name, _, config = line.partition(" ")
        if name != "#" and name.startswith("predicates.") is of_predicates:
            for side in ("",) if TRANSFORM_ROOM + name in TRANSFORMS or of_predicates else ("$Key", "$Value"):
                yield TRANSFORM_ROOM + name + side, json.loads(config)


def transform_questions(rng: Random) -> Iterator[Json]:
    """Questions to all transforms."""
    for kind, config in configurations(of_predicates=False):
        records = [data.record(rng) for _ in range(RECORDS)]
        if kind.endswith(UNTOPICAL):
            plain = {"key": [None, None], "value": [None, ["i64", 1]], "headers": []}
            records = [each | plain for each in [*records, records[0] | {"topic": None}]]
        yield question("transform", records, kind, **config)


def predicate_questions(rng: Random) -> Iterator[Json]:
    """Questions to all predicates."""
    for kind, config in configurations(of_predicates=True):
        records = [data.record(rng) for _ in range(12)]
        tombstone = records[0] | {"topic": None, "value": [None, None]}
        yield question("test", [*records, tombstone], kind, **config)


def failure_questions(rng: Random) -> Iterator[Json]:
    """Questions to what Kafka reports of a record that failed."""
    cases = []
    for stage, of_class in [
        ("VALUE_CONVERTER", JSON_CONVERTER),
        ("KEY_CONVERTER", "org.apache.kafka.connect.storage.StringConverter"),
        ("HEADER_CONVERTER", "org.apache.kafka.connect.storage.SimpleHeaderConverter"),
        ("TRANSFORMATION", f"{TRANSFORM_ROOM}Cast$Value"),
    ]:
        for kind, text in [("DataException", "Ünlesbar"), ("ConnectException", None), ("RetriableException", "later")]:
            message = {
                "topic": "orders",
                "partition": rng.randrange(3),
                "offset": rng.randrange(10**12),
                "timestamp": rng.choice([None, rng.randrange(2**41)]),
                "key": rng.choice([None, "6b"]),
                "value": rng.choice([None, "76"]),
                "headers": rng.choice([[], [["h", "01"], ["__connect.errors.topic", None]]]),
            }
            about = {"stage": stage, "class": of_class, "error": [f"org.apache.kafka.connect.errors.{kind}", text]}
            cases.append(about | {"message": message, "connector": "sink", "task": rng.randrange(3)})
    yield question("dead_letter", cases)
    for details in (True, False):
        yield question("log_line", [each | {"details": details} for each in cases])
    records = [each for each in (data.record(rng) for _ in range(40)) if "offset" not in each]
    records = [each for each in records if '"bytes"' not in json.dumps(each)]
    yield question("log_line", [cases[0] | {"details": True, "message": each} for each in records])


SETS: dict[str, Callable[[Random], Iterator[Json]]] = {
    "dates": date_questions,
    "failures": failure_questions,
    "headers": header_questions,
    "json": json_questions,
    "plain": plain_questions,
    "predicates": predicate_questions,
    "transforms": transform_questions,
}


def questions(name: str, seed: int) -> list[Json]:
    """Return the questions of a set."""
    return [json.loads(json.dumps(each)) for each in SETS[name](Random(f"{name} {seed}"))]


def stored(asked: Json, answers: Json) -> str:
    """Return the answers as the folder has them: of a record what the transform has changed."""
    if asked["ask"] == "transform" and isinstance(answers, list):
        pairs = zip(asked["cases"], answers, strict=True)
        answers = [
            {name: each for name, each in made.items() if case.get(name, made) != each} if made else made
            for case, made in pairs
        ]
    return json.dumps(answers, separators=(",", ":"))


def differences(asked: Json, ours: Json, theirs: Json) -> list[str]:
    """Return a line for each case whose answers differ."""
    if isinstance(ours, dict) or isinstance(theirs, dict) or len(ours) != len(theirs):
        return [] if ours == theirs else [f"{asked['config']}: {ours} is not {theirs}"]
    about = {name: asked[name] for name in ("ask", "class", "config", "pattern") if name in asked}
    return [
        f"{about} {json.dumps(case)}:\n    kcli  {json.dumps(our)}\n    Kafka {json.dumps(their)}"
        for case, our, their in zip(asked["cases"], ours, theirs, strict=True)
        if our != their
    ]
