"""kcli schemas, and --schemas of consume, dump-segment and produce: with the registry of kcli serve, with the files of
`_schemas`, and without either."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import signal
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kcli.export.decoding import Survey, make_decoder
from kcli.schema_client.client import references_first
from kcli.schema_client.registry import dumped_versions
from kcli.tls.certificates import make_authority
from tests.cli.run import KCLI, Ended, kcli
from tests.schema_client.registries import registry

V1 = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
V2 = V1.replace("}]}", '}, {"name": "who", "type": ["null", "string"], "default": null}]}')
BAD = V1.replace('"long"', '"string"')
MONEY = 'syntax = "proto3";\npackage shop;\n\nmessage Money {\n  int64 cents = 1;\n}\n'
PAID = (
    'syntax = "proto3"; package shop; import "shop/money.proto"; message Skip { int32 a = 1; }\n'
    "message Paid { Money sum = 1; }"
)
JSON_SCHEMA = '{"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}'


@dataclass
class Served:
    """A broker with a registry. folder: where its data directory is, and the files of schemas."""

    folder: Path
    address: str
    url: str
    names: Iterator[int] = field(default_factory=count)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def run(self, *arguments: str | Path, text: str | None = None) -> Ended:
        """Run kcli in the folder with the files."""
        variables = {"KCLI_BOOTSTRAP_SERVER": self.address, "KCLI_REGISTRY_URL": self.url}
        given = None if text is None else text.encode()
        return kcli(*arguments, cwd=self.folder, env=os.environ | variables, input=given)

    def schemas(self, *arguments: str | Path) -> str:
        """What a command of kcli schemas prints that succeeds."""
        ended = self.run("schemas", *arguments)
        assert ended.status == 0, ended
        return ended.stdout

    def name(self) -> str:
        """A new subject."""
        return f"subject{next(self.names)}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    files = {
        "v1.avsc": V1,
        "v2.avsc": V2,
        "bad.avsc": BAD,
        "money.proto": MONEY,
        "paid.proto": PAID,
        "e.json": JSON_SCHEMA,
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    words = ["serve", "--data-dir", "data", "--listen", "127.0.0.1:0", "--registry", "127.0.0.1:0"]
    with (folder / "serve.log").open("wb") as log:
        node = subprocess.Popen([*KCLI, *words], cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True)
    assert node.stdout is not None
    try:
        ready = node.stdout.readline() + node.stdout.readline()
        url = re.search(r"http://\S+", ready)
        assert url is not None, ready + (folder / "serve.log").read_text()
        yield Served(folder, ready.split()[2], url[0])
    finally:
        node.send_signal(signal.SIGTERM)
        node.communicate(timeout=60)


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_register_list_show(served: Served) -> None:
    subject = served.name()
    first = int(served.schemas("register", subject, "v1.avsc"))
    assert int(served.schemas("register", subject, "v1.avsc")) == first
    second = lines(served.schemas("register", subject, "v2.avsc", "--format", "jsonl"))[0]
    assert second == {"subject": subject, "version": 2, "id": second["id"]}
    row = lines(served.schemas("list", "--prefix", subject, "--format", "jsonl"))
    assert row == [
        {
            "subject": subject,
            "versions": [1, 2],
            "latest_version": 2,
            "latest_id": second["id"],
            "type": "AVRO",
            "compatibility": "BACKWARD",
            "deleted": [],
        }
    ]
    table = served.schemas("list", "--prefix", subject).splitlines()
    assert table[0].split() == ["SUBJECT", "VERSIONS", "LATEST", "ID", "TYPE", "COMPATIBILITY"]
    assert table[1].split() == [subject, "1-2", "2", str(second["id"]), "AVRO", "BACKWARD"]
    assert json.loads(served.schemas("show", f"{subject}:1", "--text")) == json.loads(V1)
    shown = served.schemas("show", str(first))
    assert f"registered  {subject}:1" in shown
    assert json.loads(shown[shown.index("{") :]) == json.loads(V1)
    assert lines(served.schemas("show", subject, "--format", "jsonl"))[0]["version"] == 2


def test_the_text_is_as_it_is_registered(served: Served) -> None:
    """A pipe gets every character; people see a tab as spaces, and no hidden character."""
    with registry() as other:
        text = '{"type": "string",\t"doc": "\u202e"}\n'
        body = json.dumps({"id": 1, "subject": "s", "version": 1, "schema": text, "guid": "\x1b[31m"}).encode()
        words = ["schemas", "show", "s", "--registry", other.url]
        other.failures = [(200, body, {}), (200, b"[]", {})] * 2
        assert served.run(*words, "--text").stdout == text
        shown = served.run(*words).stdout
        assert "\\u202e" in shown
        assert "\\x1b[31m" in shown
        assert "\x1b" not in shown
    subject = served.name()
    (served.folder / "tabs.proto").write_text(MONEY.replace("  int64", "\tint64"))
    served.schemas("register", subject, "money.proto")
    difference = served.schemas("diff", "money.proto", "tabs.proto")
    assert "\\t" not in difference
    assert served.schemas("show", subject, "--text") == MONEY


def test_references(served: Served) -> None:
    money, paid = served.name(), served.name()
    served.schemas("register", money, "money.proto")
    found = served.schemas("register", paid, "paid.proto", "--reference", f"shop/money.proto={money}:1")
    assert f"references  shop/money.proto = {money}:1" in re.sub(" +", "  ", served.schemas("show", paid)).replace(
        "  =  ", " = "
    )
    assert lines(served.schemas("show", f"{money}:1", "--format", "jsonl"))[0]["referenced_by"] == [int(found)]
    planned = lines(served.schemas("delete", money, "--format", "jsonl"))
    assert planned[0]["referenced_by"] == [int(found)]
    refused = served.run("schemas", "delete", money, "--execute")
    assert refused.status == 1
    assert "One or more references exist" in refused.stderr
    without = served.run("schemas", "register", served.name(), "paid.proto")
    assert (without.status, without.stdout) == (2, "")


@pytest.mark.parametrize(
    ("words", "complaint", "status"),
    [
        (["show", "nobody"], "Subject 'nobody' not found.", 1),
        (["show", "987654"], "Schema 987654 not found", 1),
        (["register", "s", "none.avsc"], "none.avsc: No such file or directory", 2),
        (["register", "s", "serve.log"], "serve.log: which schema type?", 2),
        (["register", "s", "v1.avsc", "--reference", "x"], "--reference 'x' is not NAME=SUBJECT:VERSION", 2),
        (["register", "s", "v1.avsc", "--reference", "x=y"], "--reference 'y' is not SUBJECT:VERSION", 2),
        (["register", "s", "v1.avsc", "--type", "PROTOBUF"], "422", 2),
        (["check", "v1.avsc"], "give either the files of older schemas, or --subject", 2),
        (["check", "serve.log", "v1.avsc"], "serve.log: which schema type?", 2),
        (["diff", "v1.avsc"], "a file needs another schema to compare it with", 2),
        (["delete", "nobody"], "has no subject nobody that is not deleted", 1),
        (["delete", ":1"], "':1' has no subject", 2),
        (["import", "data"], "data: no version of a subject in this dump", 2),
        (["list", "--registry", "ftp://x"], "not a registry's URL", 2),
        (["list", "--registry", "http://127.0.0.1:1"], "does not answer: Connection refused", 2),
        (["list", "--registry-login", "v1.avsc"], None, 0),
        (["list", "--registry-login", "money.proto"], "money.proto: its first line is not USER:PASSWORD", 2),
        (["list", "--data-dir", "."], "no partition 0 of _schemas in it", 2),
    ],
)
def test_refused(served: Served, words: list[str], complaint: str | None, status: int) -> None:
    ended = served.run("schemas", *words)
    assert ended.status == status, ended
    if complaint is not None:
        assert complaint in ended.stderr.splitlines()[0]
        assert ended.stdout == ""
        assert "Traceback" not in ended.stderr


def test_an_incompatible_schema_is_refused_with_reasons(served: Served) -> None:
    subject = served.name()
    served.schemas("register", subject, "v1.avsc")
    ended = served.run("schemas", "register", subject, "bad.avsc")
    assert (ended.status, ended.stdout) == (1, "")
    heading, finding = ended.stderr.splitlines()
    assert heading == f"kcli: {subject}: the schema is not compatible (BACKWARD)"
    assert finding.startswith("  TYPE_MISMATCH /fields/0/type: The type (path '/fields/0/type') of a field in the new")


def test_check(served: Served) -> None:
    subject = served.name()
    served.schemas("register", subject, "v1.avsc")
    served.schemas("register", subject, "v2.avsc")
    assert served.schemas("check", "v2.avsc", "--subject", subject) == "compatible (BACKWARD)\n"
    assert served.schemas("check", "v1.avsc", "--subject", f"{subject}:2") == "compatible (BACKWARD)\n"
    ended = served.run("schemas", "check", "bad.avsc", "--subject", subject, "--format", "jsonl")
    row = lines(ended.stdout)[0]
    assert (ended.status, row["is_compatible"], row["level"]) == (1, False, "BACKWARD")
    assert row["incompatibilities"][0]["kind"] == "TYPE_MISMATCH"
    own = served.run("schemas", "check", "bad.avsc", "--subject", subject, "--level", "FULL_TRANSITIVE")
    assert own.status == 1
    for place in (
        f"what {subject}:2 wrote",
        f"what {subject}:1 wrote",
        f"{subject}:1 cannot read what the new one wrote",
    ):
        assert place in own.stdout


def test_check_and_diff_of_files_need_no_registry(served: Served) -> None:
    def run(*words: str) -> Ended:
        return kcli("schemas", *words, cwd=served.folder, env={"PATH": os.environ["PATH"]})

    assert run("check", "v2.avsc", "v1.avsc", "--level", "FULL") == ("compatible (FULL)\n", "", 0)
    assert run("check", "v1.avsc", "bad.avsc", "v2.avsc") == ("compatible (BACKWARD)\n", "", 0)
    ended = run("check", "v1.avsc", "bad.avsc", "v2.avsc", "--level", "BACKWARD_TRANSITIVE")
    assert ended.status == 1
    assert ended.stdout == (
        "not compatible (BACKWARD_TRANSITIVE)\nthe new schema cannot read what bad.avsc wrote:\n"
        "  TYPE_MISMATCH /fields/0/type: The type (path '/fields/0/type') of a field in v1.avsc does not match with"
        " bad.avsc\n"
    )
    assert run("check", "bad.avsc", "v1.avsc", "--level", "NONE").status == 0
    assert (
        run("check", "e.json", "v1.avsc").stdout.splitlines()[-1] == "  TYPE_CHANGED: e.json is JSON, v1.avsc is AVRO"
    )
    with_import = ["check", "paid.proto", "paid.proto", "--reference", "shop/money.proto=money.proto"]
    assert run(*with_import).stdout == "compatible (BACKWARD)\n"
    assert run("check", "money.proto", "serve.log", "--type", "PROTOBUF").complaint.startswith("kcli: serve.log: ")
    assert run("list").complaint == "kcli: no registry given: --registry URL, or KCLI_REGISTRY_URL"
    diff = run("diff", "v1.avsc", "v2.avsc").stdout.splitlines()
    assert diff[:3] == ["--- v1.avsc", "+++ v2.avsc", "@@ -5,6 +5,14 @@"]
    assert diff[-2:] == ["v2.avsc can read what v1.avsc wrote", "v1.avsc can read what v2.avsc wrote"]


def test_diff_of_versions(served: Served) -> None:
    subject = served.name()
    served.schemas("register", subject, "v1.avsc")
    alone = served.run("schemas", "diff", subject)
    assert alone.complaint == f"kcli: {subject} has one version: there is nothing to compare it with"
    served.schemas("register", subject, "v2.avsc")
    last = served.schemas("diff", subject)
    assert last == served.schemas("diff", f"{subject}:2") == served.schemas("diff", f"{subject}:1", f"{subject}:2")
    row = lines(served.schemas("diff", subject, "bad.avsc", "--format", "jsonl"))[0]
    assert (row["old"], row["new"], row["backward"][0]["kind"]) == (f"{subject}:2", "bad.avsc", "TYPE_MISMATCH")


def test_delete(served: Served) -> None:
    subject = served.name()
    served.schemas("register", subject, "v1.avsc")
    served.schemas("register", subject, "v2.avsc")
    dry = served.run("schemas", "delete", f"{subject}:1")
    assert dry.stderr == "kcli: nothing is deleted without --execute\n"
    assert [line.split()[2] for line in dry.stdout.splitlines()[1:]] == ["softly"]
    assert lines(served.schemas("list", "--prefix", subject, "--format", "jsonl"))[0]["versions"] == [1, 2]
    served.schemas("delete", f"{subject}:1", "--execute")
    row = lines(served.schemas("list", "--prefix", subject, "--deleted", "--format", "jsonl"))[0]
    assert (row["versions"], row["deleted"]) == ([1, 2], [1])
    again = served.run("schemas", "delete", f"{subject}:1", "--execute")
    assert again.status == 1
    served.schemas("delete", subject, "--permanent", "--execute")
    assert served.schemas("list", "--prefix", subject, "--deleted") == ""


def test_export_and_import(served: Served, tmp_path: Path) -> None:
    """Another registry has the same subjects, versions and ids; levels and what is softly deleted, too."""
    money, paid, orders = (f"copied-{served.name()}" for _ in range(3))
    served.schemas("register", money, "money.proto")
    served.schemas("register", paid, "paid.proto", "--reference", f"shop/money.proto={money}:1")
    served.schemas("register", orders, "v1.avsc")
    served.schemas("register", orders, "v2.avsc")
    served.schemas("delete", f"{orders}:1", "--execute")
    out = tmp_path / "out"
    done = served.run("schemas", "export", out, "--prefix", "copied-", "--deleted")
    assert done == ("", f"4 versions of 3 subjects in {out}\n", 0)
    assert served.run("schemas", "export", out).complaint == f"kcli: {out}: is there, and is no empty directory"
    listed = [served.schemas("list", "--prefix", "copied-", "--deleted", "--format", "jsonl")]
    (out / "levels.json").write_text(json.dumps({"configs": {orders: {"compatibilityLevel": "FULL"}, "x": {}}}))
    with registry() as other:
        words = ["--registry", other.url]
        dry = served.run("schemas", "import", out, *words)
        assert (dry.status, dry.stderr) == (0, "kcli: nothing is registered without --execute\n")
        assert other.log == []
        done = served.run("schemas", "import", out, *words, "--execute")
        assert (done.status, done.stderr) == (0, "4 versions imported\n"), done
        listed.append(served.schemas("list", "--deleted", "--format", "jsonl", *words).replace("FULL", "BACKWARD"))
        assert listed[0] == listed[1]
        assert "FULL" in served.schemas("list", *words)
        assert other.answer("GET", f"/mode/{orders}")[0] == 404  # it has no mode of its own again
        before = len(other.log)
        again = served.run("schemas", "import", out, *words, "--execute")
        assert {line.split(maxsplit=2)[2] for line in again.stdout.splitlines()[1:]} == {"is there"}
        assert len(other.log) == before
        served.run("schemas", "delete", paid, *words, "--execute")
        assert served.run("schemas", "import", out, *words, "--execute").stderr == "1 version imported\n"
        assert lines(served.schemas("list", "--prefix", paid, "--format", "jsonl", *words))[0]["deleted"] == []
    with registry() as other:
        other.post("/subjects/taken/versions", schema='"string"')
        schemas = json.loads((out / "schemas.json").read_text())
        (tmp_path / "one.json").write_text(json.dumps([{**each, "id": 1} for each in schemas[:1]]))
        words = ["--registry", other.url]
        taken = served.run("schemas", "import", tmp_path / "one.json", *words, "--execute")
        assert taken.status == 1
        assert "in the way: id 1 is taken:1" in taken.stdout
        anew = served.run("schemas", "import", out, *words, "--new-ids", "--execute")
        assert (anew.status, anew.stderr) == (0, "3 versions imported\n"), anew
        assert lines(served.schemas("list", "--prefix", orders, "--format", "jsonl", *words))[0]["versions"] == [1]


def test_references_come_first(tmp_path: Path) -> None:
    def version(subject: str, number: int, *references: str) -> dict[str, Any]:
        refers = [{"name": each, "subject": each, "version": 1} for each in references]
        return {"subject": subject, "version": 1, "id": number, "schema": "1", "references": refers}

    rows = [version("a", 1, "b", "c"), version("b", 2, "c"), version("c", 3, "a"), version("d", 4, "gone")]
    (tmp_path / "dump.json").write_text(json.dumps(rows))
    order = [each.subject for each in references_first(dumped_versions(str(tmp_path)))]
    assert order == ["c", "b", "a", "d"]


def test_the_files_of_the_topic(served: Served, tmp_path: Path) -> None:
    subject = served.name()
    found = int(served.schemas("register", subject, "v1.avsc"))
    for words in (
        ["list", "--deleted"],
        ["list", "--format", "jsonl"],
        ["show", subject],
        ["show", str(found)],
        ["check", "bad.avsc", "--subject", subject, "--level", "FULL"],
        ["check", "v2.avsc", "--subject", subject],
        ["diff", subject, "v2.avsc"],
    ):
        assert served.run("schemas", *words) == served.run("schemas", *words, "--data-dir", served.data)
    exported = served.run("schemas", "export", tmp_path / "out", "--data-dir", served.data)
    assert exported.status == 0
    rows = json.loads((tmp_path / "out" / "schemas.json").read_text())
    assert [each["id"] for each in rows if each["subject"] == subject] == [found]
    decoder = make_decoder(f"avro:{served.data}", Survey(headers=frozenset([b"\0" + found.to_bytes(4)])))
    assert decoder.type.names == ["id"]


def test_produce_and_consume(served: Served) -> None:
    topic = served.name()
    words = ["produce", topic, "--value-schema", "v2.avsc", "-K", "|"]
    done = served.run(*words, text='k1|{"id": 1}\n|{"id": 2, "who": "ann"}\nk3|null\n')
    assert done.status == 0, done
    found = lines(served.schemas("show", f"{topic}-value", "--format", "jsonl"))[0]["id"]
    assert done.stderr.splitlines()[0] == f"kcli: schema {found} of {topic}-value"
    served.run(
        "produce", topic, "--value-schema", f"{topic}-value:1", "--format", "jsonl", text='{"value": {"id": 3}}\n'
    )
    served.run("produce", topic, text="plain\n")
    for place in (served.url, str(served.data)):
        shown = served.run("consume", topic, "-e", "--schemas", place)
        assert shown.status == 0, shown
        assert [line.partition("  key ")[2] for line in shown.stdout.splitlines()] == [
            'k1  value {"id":1,"who":null}',
            '""  value {"id":2,"who":{"string":"ann"}}',
            "k3  value null",
            'null  value {"id":3,"who":null}',
            "null  value plain (no schema's id: it does not begin with a byte 0)",
        ]
    rows = lines(served.run("consume", topic, "-e", "--schemas", served.url, "--format", "jsonl").stdout)
    assert rows[0]["key"] == "k1"
    assert rows[0]["decoded"] == {"key": None, "value": {"id": 1, "who": None}, "value_schema": found}
    assert rows[2]["decoded"] == {"key": None, "value": None}
    assert "value_error" in rows[4]["decoded"]
    text = served.run("consume", topic, "-e", "--schemas", served.url, "-f", "%k=%s\\n").stdout
    assert text.splitlines()[1:] == ['={"id":2,"who":{"string":"ann"}}', "k3=", '={"id":3,"who":null}', "=plain"]
    log = served.data / f"{topic}-0"
    dumped = lines(served.run("dump-segment", log, "--schemas", served.url, "--format", "jsonl").stdout)
    assert [each["decoded"] for each in dumped] == [each["decoded"] for each in rows]
    table = served.run("dump-segment", log, "--schemas", served.data).stdout
    assert 'key k1  value {"id":1,"who":null}' in table
    assert "value plain (no schema's id" in table
    kafka = served.run("dump-segment", log, "--schemas", served.url, "--format", "kafka")
    assert kafka.complaint == "kcli: --schemas is for the formats table and jsonl"


@pytest.mark.parametrize(
    ("schema", "good", "bad", "reason"),
    [
        ("v1.avsc", '{"id": 7}', '{"id": "7"}', '$.id: "7" is no long'),
        ("money.proto", '{"cents": "7"}', '{"dollars": 7}', "no field named"),
        ("e.json", '{"id":7}', "{}", "$: 'id' is a required property"),
    ],
)
def test_each_format(served: Served, schema: str, good: str, bad: str, reason: str) -> None:
    topic = served.name()
    words = ["produce", topic, "--key-schema", schema, "--value-schema", schema, "-K", "|"]
    assert served.run(*words, text=f"{good}|{good}\n").status == 0
    shown = served.run("consume", topic, "-e", "--schemas", served.url, "-f", "%k|%s").stdout
    assert [json.loads(each) for each in shown.split("|")] == [json.loads(good)] * 2
    refused = served.run(*words, text=f"{good}|{bad}\n")
    assert refused.status == 2
    assert "line 1 has a value that does not fit its schema: $" in refused.stderr
    assert reason in refused.stderr
    not_json = served.run(*words, text=f"{good}|oops\n")
    assert "line 1 has a value that is not JSON" in not_json.stderr


def test_a_message_by_its_name_and_references(served: Served) -> None:
    money, topic = served.name(), served.name()
    served.schemas("register", money, "money.proto")
    served.schemas("register", f"{topic}-value", "paid.proto", "--reference", f"shop/money.proto={money}:1")
    done = served.run("produce", topic, "--value-schema", f"{topic}-value#Paid", text='{"sum": {"cents": 5}}\n')
    assert done.status == 0, done
    rows = lines(served.run("consume", topic, "-e", "--schemas", served.url, "--format", "jsonl").stdout)
    assert rows[0]["decoded"]["value"] == {"sum": {"cents": "5"}}
    wrong = served.run("produce", topic, "--value-schema", f"{topic}-value#None", text="{}\n")
    assert (wrong.status, "no message 'None'" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["-", "--format", "jsonl", "--value-schema", "v1.avsc"], "--value-schema need a TOPIC"),
        (["t", "--key-schema", "v1.avsc", "--key", "x"], "--key and --key-schema exclude each other"),
        (["t", "--value-schema", "nobody"], "Subject 'nobody' not found."),
        (["t", "--value-schema", "none.avsc"], "none.avsc: No such file"),
    ],
)
def test_produce_refused(served: Served, words: list[str], complaint: str) -> None:
    ended = served.run("produce", *words, text="{}\n")
    assert ended.status in (1, 2)
    assert complaint in ended.complaint


def test_a_registry_with_tls_and_a_login(served: Served, tmp_path: Path) -> None:
    """--registry-ca is what is trusted, --registry-login what is sent."""
    now = dt.datetime.now(dt.UTC)
    authority = make_authority("test", now)
    (tmp_path / "ca.pem").write_bytes(authority.certificate_pem)
    (tmp_path / "own.pem").write_bytes(authority.server(["127.0.0.1"], now).pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "own.pem")
    (tmp_path / "login").write_text("ann:s:cret\nnot of it")
    with registry() as other:
        other.socket = context.wrap_socket(other.socket, server_side=True)
        url = other.url.replace("http:", "https:")
        refused = served.run("schemas", "list", "--registry", url)
        assert (refused.status, "certificate verify failed" in refused.complaint) == (2, True)
        words: list[str | Path] = [
            "--registry",
            url,
            "--registry-ca",
            tmp_path / "ca.pem",
            "--registry-login",
            tmp_path / "login",
        ]
        assert served.run("schemas", "list", *words) == ("", "", 0)
        assert other.logins[-1] == "Basic YW5uOnM6Y3JldA=="


@pytest.mark.parametrize("command", ["schemas", "consume", "dump-segment", "produce"])
def test_help_imports_nothing_that_is_not_asked_for(command: str) -> None:
    code = (
        "import sys; sys.argv = ['kcli', sys.argv[1], '--help']\nfrom kcli.cli.app import app\n"
        "try: app(prog_name='kcli')\nexcept SystemExit: pass\n"
        "heavy = {'kcli.schema_client', 'kcli.schemas.formats', 'kcli.registry', 'fastavro', 'google', 'jsonschema',"
        " 'pyarrow', 'http.client', 'ssl'}\nprint(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([KCLI[0], "-c", code, command], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
