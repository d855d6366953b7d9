"""The options of the S3 sink, by the names of Confluent's plug-in. Those that kcli does not have are refused, unless
they have their defaults."""

from __future__ import annotations

from typing import Final
from zoneinfo import ZoneInfo

from kcli.connect.config import validators
from kcli.connect.config.config_def import REQUIRED, ConfigDef, ConfigError, ConfigKey, Importance, Type, Value
from kcli.connect.connectors.s3.partitioning import BadFormat, PathFormat

HIGH, MEDIUM, LOW = Importance
FORMATS: Final = {
    f"io.confluent.connect.s3.format.{each}": each.rpartition(".")[2]
    for each in ("avro.AvroFormat", "bytearray.ByteArrayFormat", "json.JsonFormat", "parquet.ParquetFormat")
}
_PARTITIONER: Final = "io.confluent.connect.storage.partitioner"
PARTITIONERS: Final = {
    f"{_PARTITIONER}.{each}Partitioner": each for each in ("Default", "Field", "TimeBased", "Hourly", "Daily")
}
STORAGE: Final = "io.confluent.connect.s3.storage.S3Storage"
CREDENTIALS: Final = "com.amazonaws.auth.DefaultAWSCredentialsProviderChain"
EXTRACTORS: Final = ("Wallclock", "Record", "RecordField")
CLASSES: Final = (*FORMATS, *PARTITIONERS, STORAGE, CREDENTIALS)
TIMED: Final = ("TimeBased", "Hourly", "Daily")


def _valid_zone(name: str, value: Value) -> None:
    if value:
        try:
            ZoneInfo(str(value))
        except (KeyError, ValueError, OSError):
            raise ConfigError.of(name, value, "there is no such time zone") from None


def _valid_format(name: str, value: Value) -> None:
    try:
        PathFormat(str(value or ""))
    except BadFormat as error:
        raise ConfigError.of(name, value, str(error)) from None


OPTIONS: Final = ConfigDef(
    ConfigKey(
        "s3.bucket.name", Type.STRING, REQUIRED, HIGH, "The bucket.", validators.non_empty, "S3", 1,
    ),
    ConfigKey("s3.region", Type.STRING, "us-west-2", MEDIUM, "The bucket's region.", validators.non_empty, "S3", 2),
    ConfigKey("store.url", Type.STRING, None, LOW, "The URL of a server other than Amazon's.", None, "S3", 3),
    ConfigKey(
        "aws.access.key.id", Type.STRING, "", HIGH, "The access key; without it that of the environment, or the role.",
        None, "S3", 4,
    ),
    ConfigKey("aws.secret.access.key", Type.PASSWORD, "", HIGH, "The secret of the access key.", None, "S3", 5),
    ConfigKey("s3.part.retries", Type.INT, 3, MEDIUM, "How often a request is tried again.", validators.at_least(0)),
    ConfigKey(
        "s3.retry.backoff.ms", Type.LONG, 200, LOW, "The time between two tries of an upload.", validators.at_least(0),
    ),
    ConfigKey(
        "s3.compression.type", Type.STRING, "none", LOW, "none or gzip, for JSON and bytes.",
        validators.one_of("none", "gzip"),
    ),
    ConfigKey("topics.dir", Type.STRING, "topics", HIGH, "What stands before the topic in an object's key."),
    ConfigKey(
        "flush.size", Type.INT, REQUIRED, HIGH, "How many records of a partition close its files.",
        validators.at_least(1),
    ),
    ConfigKey(
        "rotate.interval.ms", Type.LONG, -1, HIGH,
        "The time that the records of a file span, by the timestamp.extractor of a partitioner by time; -1 for any.",
    ),
    ConfigKey(
        "rotate.schedule.interval.ms", Type.LONG, -1, MEDIUM,
        "Files are closed at the multiples of this time since midnight; -1 for never.",
    ),
    ConfigKey(
        "behavior.on.null.values", Type.STRING, "fail", LOW, "Of a record without a value: fail or ignore.",
        validators.one_of_ignoring_case("fail", "ignore"),
    ),
    ConfigKey(
        "schema.compatibility", Type.STRING, "NONE", HIGH, "NONE: another schema closes a partition's files.",
        validators.only("NONE"),
    ),
    ConfigKey(
        "storage.class", Type.CLASS, STORAGE, HIGH, "The store.", validators.only(STORAGE),
    ),
    ConfigKey(
        "format.class", Type.CLASS, REQUIRED, HIGH, "The format of files.", validators.one_of(*FORMATS),
    ),
    ConfigKey("avro.codec", Type.STRING, "null", LOW, "The compression of Avro's blocks.",
              validators.one_of("null", "deflate", "snappy", "bzip2")),
    ConfigKey("connect.meta.data", Type.BOOLEAN, "true", LOW, "Whether Avro's schemas have connect.* in them."),
    ConfigKey("parquet.codec", Type.STRING, "snappy", LOW, "The compression of Parquet's pages.",
              validators.one_of("none", "gzip", "snappy", "lz4", "brotli", "zstd")),
    ConfigKey("json.decimal.format", Type.STRING, "BASE64", LOW, "How JSON has decimals.",
              validators.one_of_ignoring_case("BASE64", "NUMERIC")),
    ConfigKey("format.bytearray.extension", Type.STRING, ".bin", LOW, "The ending of files of bytes."),
    ConfigKey("format.bytearray.separator", Type.STRING, None, LOW, "What stands behind each record; a line's end."),
    ConfigKey("filename.offset.zero.pad.width", Type.INT, 10, LOW, "The digits of an offset in an object's key.",
              validators.at_least(0)),
    ConfigKey("file.delim", Type.STRING, "+", MEDIUM, "What stands between topic, partition and offset."),
    ConfigKey("directory.delim", Type.STRING, "/", MEDIUM, "What stands between directories.", validators.only("/")),
    ConfigKey(
        "partitioner.class", Type.CLASS, f"{_PARTITIONER}.DefaultPartitioner", HIGH, "What names the directories.",
        validators.one_of(*PARTITIONERS),
    ),
    ConfigKey("partition.field.name", Type.LIST, "", MEDIUM, "The fields that name the directories."),
    ConfigKey("partition.duration.ms", Type.LONG, -1, MEDIUM, "The time that a directory is for."),
    ConfigKey("path.format", Type.STRING, "", MEDIUM, "The name of a time's directory, as Joda-Time has it.",
              _valid_format),
    ConfigKey("locale", Type.STRING, "", MEDIUM, "The language of names; kcli writes times in digits only."),
    ConfigKey("timezone", Type.STRING, "", MEDIUM, "The time zone of directories and schedules.", _valid_zone),
    ConfigKey(
        "timestamp.extractor", Type.STRING, "Wallclock", MEDIUM, "A record's time: Wallclock, Record or RecordField.",
        validators.one_of(*EXTRACTORS),
    ),
    ConfigKey("timestamp.field", Type.STRING, "timestamp", MEDIUM, "The field with the time, for RecordField."),
    *(
        ConfigKey(name, kind, default, LOW, "Not in kcli.", validators.only(default))
        for name, kind, default in (
            ("s3.credentials.provider.class", Type.CLASS, CREDENTIALS),
            ("s3.ssea.name", Type.STRING, ""),
            ("s3.sse.kms.key.id", Type.STRING, ""),
            ("s3.acl.canned", Type.STRING, None),
            ("s3.proxy.url", Type.STRING, ""),
            ("s3.compression.level", Type.INT, -1),
            ("s3.object.tagging", Type.BOOLEAN, False),
            ("s3.wan.mode", Type.BOOLEAN, False),
            ("s3.path.style.access.enabled", Type.BOOLEAN, True),
            ("append.late.data", Type.BOOLEAN, False),
            ("store.kafka.keys", Type.BOOLEAN, False),
            ("store.kafka.headers", Type.BOOLEAN, False),
            ("enhanced.avro.schema.support", Type.BOOLEAN, True),
        )
    ),
)  # fmt: skip
