"""The types of messages: the stubs are those that kio's classes give, and every handler names its API's Call.

mypy's findings were tried by hand: a field that no version has, in a request and in a response; a value of another
type; a missing field that every version needs.
"""

import ast
from pathlib import Path

import pytest

import kcli.broker.api
from kcli.broker.wire.apis import APIS, Api
from kcli.broker.wire.make_types import FOLDER, stub

API_FILES = Path(kcli.broker.api.__file__).parent


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_a_stub_has_the_messages_of_kio(api: Api) -> None:
    assert (FOLDER / f"{api.name}.pyi").read_text() == stub(api), "python -m kcli.broker.wire.make_types"


def test_no_stub_is_of_an_unknown_api() -> None:
    assert {path.stem for path in FOLDER.glob("*.pyi")} == {api.name for api in APIS.values()}


def test_a_stub_has_the_fields_of_all_versions() -> None:
    text = (FOLDER / "metadata.pyi").read_text()
    assert "    name: str | None\n" in text, "nullable from version 12 on"
    assert "    cluster_authorized_operations: int  # versions 8 to 10\n" in text
    assert "        offline_replicas: tuple[int, ...] = ...,\n" in text, "not all versions have it"
    assert "        error_code: ErrorCode,\n        partition_index: int,\n" in text, "every version needs them"


def test_getattr_names_fields_of_messages() -> None:
    """mypy does not check the name of a field that only some versions of a struct have."""
    known = {
        field.target.id
        for path in FOLDER.glob("*.pyi")
        for field in ast.walk(ast.parse(path.read_text()))
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }
    read = {
        name.value
        for path in API_FILES.parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr"
        for name in node.args[1:2]
        if isinstance(name, ast.Constant)
    }
    of_others = {"MSG_MORE", "__name__", "__slots__", "answer_plain", "inputs", "kept_state"}
    assert read - of_others <= known
    assert "member_epoch" in read


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_a_handler_takes_the_call_of_its_api(api: Api) -> None:
    module = ast.parse((API_FILES / f"{api.name}.py").read_text())
    aliases = [
        alias.asname
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and node.module == "kcli.broker.wire.types"
        for alias in node.names
        if alias.name == api.name
    ]
    calls = [node.name for node in ast.walk(ast.parse(stub(api))) if isinstance(node, ast.ClassDef) and node.bases]
    takers = [
        node
        for node in module.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in (api.name, "inputs")
    ]
    assert api.name in [each.name for each in takers]
    for each in takers:
        taken = each.args.args[1].annotation
        assert taken is not None
        assert [ast.unparse(taken)] == [f"{aliases[0]}.{name}" for name in calls], each.name
