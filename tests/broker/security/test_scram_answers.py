"""AlterUserScramCredentials and DescribeUserScramCredentials return what real Kafka returned, and write its records;
record.py has recorded them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from kcli.broker.broker import Broker
from kcli.metadata.image import MetadataImage
from kcli.metadata.result import RECORDS_PER_REQUEST_MAX
from kcli.metadata.scram_control import Upsertion, alter_user_scram_credentials
from kcli.metadata.snapshot import snapshot
from kcli.protocol.error_code import ErrorCode
from kcli.security.scram import SCRAM_SHA_256, ScramCredential
from kcli.testing.wire import plain
from tests.broker.security.record import record_values
from tests.broker.security.scram_cases import RECORDS, alter, cases, describe, upsertion
from tests.conftest import read_jsonl
from tests.metadata.node import Metadata, answer, call, node, started
from tests.metadata.test_answers import PROPERTIES
from tests.metadata.wire import whole

FOLDER = Path(__file__).parent
ANSWERS = list(read_jsonl(FOLDER / "scram_answers.jsonl.gz"))


def comparable(found: Any) -> Any:
    """Return a response with a user's mechanisms in the order of their codes, since Kafka's order differs from run to
    run."""
    for user in found["results"]:
        if "credential_infos" in user:
            user["credential_infos"].sort(key=lambda each: each["mechanism"])
    return found


async def ask_all(broker: Broker) -> list[Any]:
    return [plain(await answer(broker, call(*each))) for each in cases()]


@pytest.fixture(scope="module")
def ours() -> tuple[list[Any], Metadata]:
    """Return kcli's responses to all cases, and the metadata after them."""
    metadata = started()
    return asyncio.run(ask_all(node(PROPERTIES, metadata))), metadata


def test_the_recorded_questions_are_the_cases() -> None:
    asked = json.loads(json.dumps(list(cases()), default=bytes.hex))
    assert [[each["api_key"], each["version"], each["request"]] for each in ANSWERS] == asked


@pytest.mark.parametrize("number", range(len(ANSWERS)))
def test_the_answer_is_kafkas(number: int, ours: tuple[list[Any], Metadata]) -> None:
    assert comparable(ours[0][number]) == comparable(ANSWERS[number]["answer"])


def test_the_records_are_kafkas(ours: tuple[list[Any], Metadata]) -> None:
    written = [(name, whole(name, version, value)) for name, version, value in ours[1].written if name in RECORDS]
    expected = [json.loads(line) for line in (FOLDER / "scram_records.jsonl").read_text().splitlines()]
    assert [record_values(*each) for each in written] == expected


def test_a_snapshot_has_all_credentials(ours: tuple[list[Any], Metadata]) -> None:
    image, again = ours[1].image, MetadataImage()
    for offset, (name, version, value) in enumerate(snapshot(image)):
        again.apply(name, whole(name, version, value), offset)
    assert image.scram_credentials
    assert again.scram_credentials == image.scram_credentials


def test_an_older_metadata_version_has_no_credentials() -> None:
    image = MetadataImage()
    image.apply("FeatureLevelRecord", {"name": "metadata.version", "featureLevel": 10}, 0)
    new = Upsertion("u", 1, ScramCredential.of_password(SCRAM_SHA_256, "p", b"s", 4096))
    records, answers = alter_user_scram_credentials(image, (), [new])
    assert (records, [(name, error.code) for name, error in answers]) == ([], [("u", ErrorCode.UNSUPPORTED_VERSION)])


def test_more_than_one_request_may_change() -> None:
    async def ask(broker: Broker, count: int) -> list[Any]:
        users = [upsertion(f"u{each}") for each in range(count)]
        found = plain(await answer(broker, call(*alter(*users))))
        return [{each["error_code"] for each in found["results"]}, len(broker.image.scram_credentials)]

    broker = node(PROPERTIES, started())
    most = RECORDS_PER_REQUEST_MAX
    assert asyncio.run(ask(broker, most + 1)) == [{ErrorCode.UNKNOWN_SERVER_ERROR}, 0]
    assert asyncio.run(ask(broker, most)) == [{ErrorCode.NONE}, most]
    described = plain(asyncio.run(answer(broker, call(*describe()))))
    assert len(described["results"]) == most
