"""A user's job on a secured listener (../README.md) with kafka-python, aiokafka and confluent-kafka."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import confluent_kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.errors import KafkaConnectionError
from confluent_kafka.admin import AdminClient, NewTopic

with warnings.catch_warnings():  # kafka-python reads its own version in a deprecated way
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
    from kafka.errors import KafkaTimeoutError
    from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.interop.clients.secured import WAIT_S, Job

Report = dict[str, Any]
PARTITIONS = 2
OAUTH = "OAUTHBEARER"


def protocol(job: Job) -> str:
    return "SASL_SSL" if job.mechanism else "SSL"


def login(job: Job, provider: Any) -> dict[str, Any]:
    """Return the SASL configuration under the names that kafka-python and aiokafka share. provider: of tokens."""
    if job.mechanism == OAUTH:
        return {"sasl_mechanism": OAUTH, "sasl_oauth_token_provider": provider}
    if job.mechanism:
        return {
            "sasl_mechanism": job.mechanism,
            "sasl_plain_username": job.user,
            "sasl_plain_password": job.secret,
        }
    return {}


@contextmanager
def logged(name: str) -> Iterator[list[str]]:
    """Collect the warnings of a logger: a client that is refused logs the reason, and raises only that it cannot
    connect."""
    lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


def kafka_python_config(job: Job) -> dict[str, Any]:
    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return job.secret

    keys = dict.fromkeys(("ssl_certfile", "ssl_keyfile"), job.keys) if job.keys else {}
    config = {"bootstrap_servers": job.bootstrap, "security_protocol": protocol(job), "ssl_cafile": job.ca}
    return config | keys | login(job, Provider())


def kafka_python(job: Job) -> Report:
    config, report = kafka_python_config(job), {}
    topic = {"num_partitions": PARTITIONS, "replication_factor": 1}
    admin = KafkaAdminClient(**config)
    (refused,) = admin.create_topics({job.forbidden: topic}, raise_errors=False)["topics"]
    report["refused"] = refused["error_code"]
    admin.create_topics({job.name: topic})
    report["topics"] = admin.list_topics()
    admin.close()
    producer = KafkaProducer(**config)
    for each in [producer.send(job.name, value.encode()) for value in job.values]:
        each.get(WAIT_S)
    producer.close()
    producer = KafkaProducer(**config, transactional_id=job.name)
    producer.init_transactions()
    for value, end in ((job.kept, producer.commit_transaction), (job.lost, producer.abort_transaction)):
        producer.begin_transaction()
        producer.send(job.name, value.encode()).get(WAIT_S)
        end()
    producer.close()
    options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", "group_id": job.name}
    consumer = KafkaConsumer(job.name, **config, **options)
    found: list[str] = []
    until = time.monotonic() + WAIT_S
    while len(found) <= len(job.values) and time.monotonic() < until:
        found += [each.value.decode() for records in consumer.poll(timeout_ms=500).values() for each in records]
    consumer.commit()
    consumer.close()
    report["read"] = found
    return report


def kafka_python_turned_away(job: Job) -> str:
    with logged("kafka.net.manager") as lines, suppress(KafkaTimeoutError):
        KafkaAdminClient(**kafka_python_config(job), bootstrap_timeout_ms=500)
    return lines[0]


def aiokafka_config(job: Job) -> dict[str, Any]:
    class Provider(AioTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return job.secret

    context = ssl.create_default_context(cafile=job.ca)
    if job.keys:
        context.load_cert_chain(job.keys)
    config = {"bootstrap_servers": job.bootstrap, "security_protocol": protocol(job), "ssl_context": context}
    return config | login(job, Provider())


async def aiokafka(job: Job) -> Report:
    config, report = aiokafka_config(job), Report()
    admin = AIOKafkaAdminClient(**config)
    await admin.start()
    answer = await admin.create_topics([AioNewTopic(job.forbidden, PARTITIONS, 1)])
    report["refused"] = answer.topic_errors[0][1]
    await admin.create_topics([AioNewTopic(job.name, PARTITIONS, 1)])
    report["topics"] = await admin.list_topics()
    await admin.close()
    async with AIOKafkaProducer(**config, enable_idempotence=True) as producer:
        for value in job.values:
            await producer.send_and_wait(job.name, value.encode())
    async with AIOKafkaProducer(**config, transactional_id=job.name) as producer:
        for value, end in ((job.kept, producer.commit_transaction), (job.lost, producer.abort_transaction)):
            await producer.begin_transaction()
            await producer.send_and_wait(job.name, value.encode())
            await end()
    options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", "group_id": job.name}
    found: list[str] = []
    async with AIOKafkaConsumer(job.name, **config, **options) as consumer, asyncio.timeout(WAIT_S):
        while len(found) <= len(job.values):
            found.append((await consumer.getone()).value.decode())
    report["read"] = found
    return report


async def aiokafka_turned_away(job: Job) -> str:
    admin = AIOKafkaAdminClient(**aiokafka_config(job))
    with logged("aiokafka") as lines, suppress(KafkaConnectionError):
        await admin.start()
    await admin.close()
    return lines[0]


def confluent_config(job: Job) -> dict[str, Any]:
    config: dict[str, Any] = {
        "bootstrap.servers": job.bootstrap,
        "security.protocol": protocol(job),
        "ssl.ca.location": job.ca,
        "log_level": 0,
    }
    if job.keys:
        config |= dict.fromkeys(("ssl.certificate.location", "ssl.key.location"), job.keys)
    if job.mechanism == OAUTH:
        config |= {"sasl.mechanism": OAUTH, "oauth_cb": lambda _: (job.secret, time.time() + 600)}
    elif job.mechanism:
        config |= {"sasl.mechanism": job.mechanism, "sasl.username": job.user, "sasl.password": job.secret}
    return config


def confluent(job: Job) -> Report:
    config, report = confluent_config(job), Report()
    admin = AdminClient(config)
    admin.poll(0)  # it calls oauth_cb
    created = admin.create_topics([NewTopic(each, PARTITIONS, 1) for each in (job.forbidden, job.name)])
    refused: Any = created[job.forbidden].exception(WAIT_S)
    report["refused"] = refused.args[0].code()
    created[job.name].result(WAIT_S)
    report["topics"] = list(admin.list_topics(timeout=WAIT_S).topics)
    producer = confluent_kafka.Producer({**config, "enable.idempotence": True})
    for value in job.values:
        producer.produce(job.name, value)
    assert producer.flush(WAIT_S) == 0
    producer = confluent_kafka.Producer({**config, "transactional.id": job.name})
    producer.poll(0)
    producer.init_transactions(WAIT_S)
    for value, end in ((job.kept, producer.commit_transaction), (job.lost, producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(job.name, value)
        producer.flush(WAIT_S)
        end(WAIT_S)
    consumer = confluent_kafka.Consumer({**config, "group.id": job.name, "auto.offset.reset": "earliest"})
    consumer.subscribe([job.name])
    found: list[str] = []
    until = time.monotonic() + WAIT_S
    while len(found) <= len(job.values) and time.monotonic() < until:
        found += [(each.value() or b"").decode() for each in consumer.consume(10, 0.5) if each.error() is None]
    consumer.close()
    report["read"] = found
    return report


def confluent_turned_away(job: Job) -> str:
    errors: list[Any] = []
    config = confluent_config(job) | {"error_cb": errors.append}
    admin = AdminClient(config)
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        admin.poll(0.2)
        for each in errors:
            if each.code() == confluent_kafka.KafkaError._AUTHENTICATION:
                return str(each.str())
    return ""


LIBRARIES: dict[str, tuple[Callable[[Job], Report], Callable[[Job], str]]] = {
    "kafka-python": (kafka_python, kafka_python_turned_away),
    "aiokafka": (lambda job: asyncio.run(aiokafka(job)), lambda job: asyncio.run(aiokafka_turned_away(job))),
    "confluent-kafka": (confluent, confluent_turned_away),
}


class Library:
    """A Python client that does its jobs in this process."""

    def __init__(self, name: str) -> None:
        self._take, self._turned_away = LIBRARIES[name]

    def do(self, job: Job) -> Report:
        """Do a job. Returns the report."""
        report = self._take(job)
        if job.wrong:
            report["turned_away"] = self._turned_away(replace(job, secret=job.wrong))
        return report

    def close(self) -> None:
        """Nothing is open."""
