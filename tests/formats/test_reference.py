"""man/kcli-formats.5 is what the definitions give, and the definitions agree with Kafka's schemas."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from formats import producer_snapshot, quorum_state
from formats.message_schema import schema, schema_files, schemas
from formats.quorum_state import QuorumState
from formats.reference import page

PAGE = Path(__file__).parents[2] / "man" / "kcli-formats.5"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == page(), "run: python -m formats.reference > man/kcli-formats.5"


def test_the_page_has_every_record_of_every_topic() -> None:
    text = PAGE.read_text()
    for file in schema_files():
        for message in schemas(file):
            if message.type != "header" and message.name not in ("ProducerSnapshot", "DefaultPrincipalData"):
                assert f".Ss {message.name} (" in text, message.name


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_page_is_sound_mdoc() -> None:
    done = subprocess.run(["groff", "-mdoc", "-Tutf8", "-ww", "-z", PAGE], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_producer_entries_are_those_of_the_schema() -> None:
    fields = {field.name: field for field in schema("ProducerSnapshot").root.fields}
    entry = fields["producerEntries"].struct
    assert entry is not None
    assert [field.type for field in entry.fields] == [field.type for field in producer_snapshot.ENTRY.fields]
    assert fields["crc"].type == producer_snapshot.HEADER.fields[1].type


def test_quorum_state_has_the_fields_of_the_schema() -> None:
    for version in (0, 1):
        state = QuorumState(version, 1, 2, 3, "A" * 22, "", 0, (1,))
        written = list(json.loads(quorum_state.build(state)))
        assert written == [*schema("QuorumStateData").layout(version).names, "data_version"]
