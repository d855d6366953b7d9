"""Values that no command accepts: one line that names them, status 2, and no request or write."""

from pathlib import Path

import pytest

from tests.cli.run import kcli

NOBODY = ["-b", "127.0.0.1:1", "--timeout", "0.2"]
LOG = "good/java-zstd-0"
BEYOND = str(2**63)
NUMBERS = {
    "limit": ["dump-segment", "--limit", "99999999999999999999999", LOG],
    "from-offset": ["dump-segment", "--from-offset", BEYOND, LOG],
    "to-offset": ["dump-segment", "--to-offset", f"-{BEYOND}1", LOG],
    "dumped-producer": ["dump-segment", "--producer-id", BEYOND, LOG],
    "from-time": ["dump-segment", "--from-time", "-999999999999d", LOG],
    "to-time": ["dump-segment", "--to-time", "9999999999999999999", LOG],
    "time": ["consume", "t", "--time", "-999999999999d:", *NOBODY],
    "read-partition": ["consume", "t", "-p", "99999999999", *NOBODY],
    "partitions": ["topics", "create", "t", "--partitions", "99999999999", *NOBODY],
    "more-partitions": ["topics", "alter", "t", "--partitions", "3000000", *NOBODY],
    "replicas": ["topics", "create", "t", "--replication-factor", "99999", *NOBODY],
    "timeout": ["topics", "list", "-b", "127.0.0.1:1", "--timeout", "99999999999999"],
    "timeout-3601": ["topics", "list", "-b", "127.0.0.1:1", "--timeout", "3601"],
    "timeout-nan": ["topics", "list", "-b", "127.0.0.1:1", "--timeout", "nan"],
    "producer": ["transactions", "list", "--producer-id", BEYOND, *NOBODY],
    "duration": ["transactions", "list", "--duration-filter", BEYOND, *NOBODY],
    "aborted": ["transactions", "abort", "--topic", "t", "--partition", "0", "--producer-id", BEYOND, *NOBODY],
}
EMPTY = {
    "group": ["consume", "orders", "--group", "", "-e", *NOBODY],
    "group-property": ["consume", "orders", "--group", "g", "-X", "group.id=", *NOBODY],
    "described": ["groups", "describe", "", *NOBODY],
    "members": ["groups", "members", "--group", "", *NOBODY],
    "reset": ["groups", "reset", "", "--all-topics", "--to-earliest", "--execute", *NOBODY],
    "deleted": ["groups", "delete", "", *NOBODY],
    "topic": ["topics", "describe", "", *NOBODY],
    "bootstrap": ["topics", "list", "-b", ""],
    "recover": ["recover", "--in-place", ""],
    "out": ["recover", LOG, "--out", ""],
    "data-dir": ["serve", "--data-dir", ""],
    "verify": ["verify", ""],
    "compact": ["compact", ""],
    "dump": ["dump-segment", ""],
    "files-of-groups": ["groups", "list", "--data-dir", ""],
    "import": ["import-from-parquet", "", "--out", "new"],
    "pipe": ["pipe", "delta:x", "kafka://127.0.0.1:1/t", "--checkpoint", ""],
}


@pytest.mark.parametrize("arguments", NUMBERS.values(), ids=list(NUMBERS))
def test_numbers_beyond_all_bounds(arguments: list[str]) -> None:
    ended = kcli(*arguments)
    assert (ended.stdout, ended.status) == ("", 2), ended.stderr
    assert "Traceback" not in ended.stderr
    assert any(each in ended.stderr for each in arguments if each.startswith("-"))


@pytest.mark.parametrize("arguments", EMPTY.values(), ids=list(EMPTY))
def test_empty_names(arguments: list[str], tmp_path: Path) -> None:
    ended = kcli(*arguments, cwd=tmp_path, timeout=20)
    assert (ended.stdout, ended.status) == ("", 2), ended.stderr
    assert "empty" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_bounds_that_commands_take() -> None:
    bounds = ["--from-offset", str(-(2**63)), "--to-offset", str(2**63 - 1), "--limit", str(2**63 - 1)]
    assert kcli("dump-segment", *bounds, LOG).status == 0


@pytest.mark.parametrize("key", ["0x", "0xzz", "0x1", "0x123", "0x12 34", "0x0x12"])
@pytest.mark.parametrize(
    "arguments",
    [["dump-segment", LOG, "--key"], ["compact", LOG, "--why"], ["produce", "t", *NOBODY, "--key"]],
    ids=lambda arguments: str(arguments[0]),
)
def test_keys_with_bad_hexadecimal_behind_0x(arguments: list[str], key: str) -> None:
    """The message has the bytes that would find this very text."""
    ended = kcli(*arguments, key)
    assert (ended.stdout, ended.status) == ("", 2), ended.stderr
    assert f"{arguments[-1]} {key!r} is not hexadecimal" in ended.stderr
    assert f"0x{key.encode().hex()}" in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "command", [("users", "list"), ("acls", "list"), ("tokens", "describe"), ("cluster", "status"), ("topics", "list")]
)
def test_unknown_properties(command: tuple[str, str]) -> None:
    """A mistyped security.protocol would connect by PLAINTEXT."""
    for given, reason in [
        ("security.protocl=SASL_SSL", 'kcli: -X: No such configuration property: "security.protocl"'),
        ("security.protocol=SASL_SLL", 'kcli: -X: Invalid value "SASL_SLL" for configuration property'),
    ]:
        ended = kcli(*command, "-X", given, *NOBODY)
        assert (ended.complaint.startswith(reason), ended.status) == (True, 2), ended


def test_the_file_of_a_bad_value(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SLL\n")
    for command in (("users", "list"), ("topics", "list")):
        ended = kcli(*command, "--command-config", file, *NOBODY)
        assert ended.complaint.startswith(f"kcli: {file}: security.protocol: SASL_SLL is none of"), ended
        assert ended.status == 2
