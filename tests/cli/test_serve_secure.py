"""kcli serve --secure: closed to all but the admin, with certificates and a client.properties beside the data."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kcli.broker.startup.secure import secure
from kcli.log.log_directory import read_properties
from kcli.security.authorizer import CLASS_NAME
from kcli.tls.certificates import hosts_of
from tests.broker.cluster import free_ports
from tests.broker.running import ServedNode
from tests.cli.run import KCLI, Ended, kcli
from tests.cli.test_serve_nodes import serving


class SecureNode:
    """A running node, and kcli as one of its users."""

    def __init__(self, data_dir: Path, *arguments: str) -> None:
        self.secrets = data_dir.with_name(f"{data_dir.name}-secure")
        self.node = ServedNode(data_dir, "--secure", *arguments)

    def run(self, *arguments: str | Path, client: Path | None = None, text: bytes | None = None) -> Ended:
        """Run a client command, as the admin or with another client.properties."""
        config = client or self.secrets / "client.properties"
        return kcli(*arguments, "-b", self.node.bootstrap, "--command-config", config, input=text)

    def user(self, name: str, password: str) -> Path:
        """Add a user; the client.properties of that user."""
        assert self.run("users", "add", name, "--password-file", "-", text=password.encode()) == ("", "", 0)
        lines = (self.secrets / "client.properties").read_text().splitlines()
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        login = f'sasl.jaas.config={module} required username="{name}" password="{password}";'
        file = self.secrets.with_name(f"{name}.properties")
        file.write_text("\n".join(login if line.startswith("sasl.jaas.config") else line for line in lines))
        return file


@contextmanager
def secure_node(data_dir: Path, *arguments: str) -> Iterator[SecureNode]:
    node = SecureNode(data_dir, *arguments)
    try:
        yield node
    finally:
        node.node.signal(signal.SIGTERM)


def test_one_who_may_and_one_who_may_not(tmp_path: Path) -> None:
    with secure_node(tmp_path / "data") as node:
        assert node.run("topics", "create", "orders") == ("", "", 0)
        assert node.run("produce", "orders", text=b"one\n").status == 0
        alice = node.user("alice", "pw")
        refused = node.run("consume", "orders", "--exit", client=alice)
        assert (refused.stdout, refused.status, "orders" in refused.stderr) == ("", 1, True)
        explained = node.run("acls", "explain", "alice", "read", "topic:orders")
        assert (explained.stdout.splitlines()[2], explained.status) == ("rule: DefaultDeny", 1)
        explained = node.run("acls", "explain", "admin", "read", "topic:orders")
        assert (explained.stdout.splitlines()[1:], explained.stderr) == (["rule: SuperUser"], "")
        data = ("--data-dir", tmp_path / "data")
        for name, decides in {"admin": "rule: SuperUser", "alice": "rule: DefaultDeny"}.items():
            explained = kcli("acls", "explain", name, "read", "topic:orders", *data)
            assert (explained.stdout.splitlines()[1], explained.stderr) == (decides, "")
        rule = ["--allow-principal", "User:alice", "--operation", "read", "--topic", "orders"]
        assert node.run("acls", "add", *rule) == ("", "", 0)
        assert "value one" in node.run("consume", "orders", "--exit", client=alice).stdout
        refused = node.run("produce", "orders", client=alice, text=b"two\n")
        assert ("CLUSTER_AUTHORIZATION_FAILED" in refused.stderr, refused.status) == (True, 1), refused
        assert "0 records delivered, 1 record not" in refused.stderr
        assert node.run("acls", "list", client=alice).status == 1
        assert kcli("topics", "list", "-b", node.node.bootstrap).status == 1
        lines = (node.secrets / "client.properties").read_text().replace("kcli", "").splitlines()
        wrong = tmp_path / "wrong.properties"
        wrong.write_text("\n".join(line.replace('password="', 'password="x') for line in lines))
        assert "Authentication failed" in node.run("users", "list", client=wrong).complaint


def test_a_second_start_uses_them_again(tmp_path: Path) -> None:
    data, secrets = tmp_path / "data", tmp_path / "data-secure"
    (tmp_path / "data-secure.part").mkdir()  # a start that was killed
    with secure_node(data) as node:
        node.run("topics", "create", "orders")
    assert secrets.stat().st_mode & 0o777 == data.stat().st_mode & 0o777 == 0o700
    files = {path.name: path for path in secrets.iterdir()}
    modes = {name: path.stat().st_mode & 0o777 for name, path in files.items()}
    assert modes == {
        "ca.pem": 0o644,
        "authority.pem": 0o600,
        "server.pem": 0o600,
        "token.key": 0o600,
        "client.properties": 0o600,
    }
    before = {name: path.read_bytes() for name, path in files.items()}
    with secure_node(data) as node:
        assert node.run("topics", "list").stdout.split()[0] == "orders"
    assert {name: path.read_bytes() for name, path in files.items()} == before
    shutil.rmtree(data)  # a first start that was killed before it formatted the log directory
    with secure_node(data) as node:
        assert node.run("users", "list").stdout.split()[-3:] == ["admin", "SCRAM-SHA-512", "4096"]

    now = dt.datetime.now(dt.UTC)
    assert hosts_of(before["server.pem"], now) == ["localhost", "127.0.0.1", "::1"]
    with secure_node(data, "--advertise", "kafka.test:9092"):
        pass
    assert "kafka.test" in hosts_of((secrets / "server.pem").read_bytes(), now)
    assert {each: path.read_bytes() for each, path in files.items() if each != "server.pem"} == {
        name: data for name, data in before.items() if name != "server.pem"
    }
    assert (secrets / "server.pem").stat().st_mode & 0o777 == 0o600
    assert hosts_of(before["server.pem"], now + dt.timedelta(days=4000)) == []


def test_a_directory_that_has_no_admin_gets_one(tmp_path: Path) -> None:
    """The admin is then in the metadata log, and a second start adds none."""
    open_to_all = ServedNode(tmp_path / "data")
    assert kcli("topics", "create", "orders", "-b", open_to_all.bootstrap).status == 0
    open_to_all.signal(signal.SIGTERM)
    for _ in range(2):
        with secure_node(tmp_path / "data") as node:
            assert node.run("topics", "list").stdout.split()[0] == "orders"
            assert kcli("topics", "list", "-b", node.node.bootstrap).status == 1
    log = tmp_path / "data" / "__cluster_metadata-0" / f"{0:020}.log"
    dumped = kcli("dump-segment", log, "--format", "jsonl").stdout
    assert dumped.count("UserScramCredentialRecord") == 1


def test_a_directory_with_an_admin_of_its_own(tmp_path: Path) -> None:
    """--secure cannot know that admin's password, even where the node has never started."""
    for name, arguments in {"data": ["-S", "SCRAM-SHA-512=[name=admin,password=x]"], "old": ["-r", "3.4"]}.items():
        properties = tmp_path / f"{name}.properties"
        lines = {"node.id": "1", "process.roles": "broker,controller", "controller.listener.names": "CONTROLLER"}
        lines |= {"controller.quorum.voters": "1@localhost:9093", "log.dirs": str(tmp_path / name)}
        lines |= {"listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9093"}
        properties.write_text("".join(f"{key}={text}\n" for key, text in lines.items()))
        formatted = kcli("format", "-t", "5L6g3nShT-eMCtK--X86sw", "-c", properties, *arguments)
        assert formatted.status == 0, formatted
    for name, reason in {"data": "has a user admin already", "old": "older than users of SCRAM"}.items():
        ended = kcli("serve", "--secure", "--data-dir", tmp_path / name)
        assert (ended.status, reason in ended.complaint, "Next: " in ended.complaint) == (1, True, True)
        assert not (tmp_path / f"{name}-secure").exists()


def test_a_node_that_listens_on_all_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node advertises the machine's name, which its certificate has."""
    monkeypatch.setattr("socket.getfqdn", lambda: "kcli.test")
    now = dt.datetime.now(dt.UTC)
    for hosts in (["127.0.0.1"], [""]):  # a later start adds the names that the first one lacked
        secure(tmp_path / "data", hosts, None, now)
    named = hosts_of((tmp_path / "data-secure" / "server.pem").read_bytes(), now)
    assert set(named) == {"localhost", "127.0.0.1", "::1", "kcli.test"}


@pytest.mark.parametrize("wait_s", [0.3, 0.6, 1.0, 1.6])
def test_a_signal_leaves_no_temporary_directory(tmp_path: Path, wait_s: float) -> None:
    """Whatever the node was about, and where a second signal ends it at once: the directory has keys and passwords."""
    command = [*KCLI, "serve", "--secure", "--listen", "127.0.0.1:0"]
    node = subprocess.Popen(command, env=os.environ | {"TMPDIR": str(tmp_path)}, stdout=-3, stderr=-3)
    time.sleep(wait_s)
    for _ in range(2):
        node.send_signal(signal.SIGTERM)
    assert node.wait(30) in (0, 130, 143, -signal.SIGTERM)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("others", [[], ["--read-only"], ["--nodes", "2"]])
def test_what_is_closed_is_not_opened_by_oversight(tmp_path: Path, others: list[str]) -> None:
    data = tmp_path / "data"
    secure(data, ["127.0.0.1"], None, dt.datetime.now(dt.UTC))
    ended = kcli("serve", "--data-dir", data, "--listen", "127.0.0.1:0", *others)
    assert ended.status == 2
    assert f"{data}-secure has closed it, and without --secure it is open to everybody" in ended.complaint
    assert ended.complaint.endswith(f"--data-dir {data}")


def test_what_is_closed_is_opened_on_demand(tmp_path: Path) -> None:
    data = tmp_path / "data"
    secure(data, ["127.0.0.1"], None, dt.datetime.now(dt.UTC))
    node = ServedNode(data, "--insecure")
    assert kcli("topics", "list", "-b", node.bootstrap).status == 0
    node.signal(signal.SIGTERM)
    ended = kcli("serve", "--data-dir", data, "--secure", "--insecure")
    assert (ended.status, ended.complaint) == (2, "kcli: --secure and --insecure exclude each other")


def test_the_admin_has_another_password(tmp_path: Path) -> None:
    """A start says so, and how client.properties gets in again; it makes anew what follows from the authority."""
    data, secrets = tmp_path / "data", tmp_path / "data-secure"
    with secure_node(data) as node:
        changed = node.run("users", "add", "admin", "--password-file", "-", text=b"new")
        assert f"{secrets / 'client.properties'} has the password that admin had" in changed.complaint
    for missing in ("client.properties", "ca.pem", "server.pem"):
        (secrets / missing).unlink()
    log = SecureNode(data).node.signal(signal.SIGTERM)[1]
    assert f"Next: kcli users remove admin, while kcli serve --insecure --data-dir {data} runs" in log
    assert (secrets / "client.properties").stat().st_mode & 0o777 == 0o600
    opened = ServedNode(data, "--insecure")
    assert kcli("users", "remove", "admin", "-b", opened.bootstrap).status == 0
    opened.signal(signal.SIGTERM)
    with secure_node(data) as again:
        assert again.run("topics", "list") == ("", "", 0)
    (secrets / "token.key").unlink()
    ended = kcli("serve", "--secure", "--data-dir", data)
    assert (ended.status, "Next: (umask 077; openssl rand" in ended.complaint) == (2, True)


def test_a_broker_that_its_own_controller_would_refuse(tmp_path: Path) -> None:
    """As by Kafka, whose broker is never registered (CLUSTER_AUTHORIZATION_FAILED); unless an ACL allows it."""
    config, listener = tmp_path / "server.properties", f"127.0.0.1:{free_ports(1)[0]}"
    lines = {"process.roles": "broker,controller", "node.id": "1", "controller.quorum.voters": f"1@{listener}"}
    lines |= {"listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://{listener}", "log.dirs": str(tmp_path / "data")}
    lines |= {"controller.listener.names": "CONTROLLER", "authorizer.class.name": CLASS_NAME}

    def write(super_users: str) -> None:
        config.write_text("".join(f"{name}={text}\n" for name, text in {**lines, "super.users": super_users}.items()))

    write("User:admin")
    ended = kcli("serve", "--config", config)
    assert ended.status == 1
    reason = "kcli: super.users: must name User:ANONYMOUS, as whom this node registers at CONTROLLER"
    assert ended.stderr.splitlines()[-1].startswith(reason)
    write("User:ANONYMOUS")
    node = ServedNode(tmp_path / "data", "--config", str(config))
    rule = ("--allow-principal", "User:ANONYMOUS", "--operation", "cluster-action", "--cluster")
    assert kcli("acls", "add", *rule, "-b", node.bootstrap) == ("", "", 0)
    node.signal(signal.SIGTERM)
    write("User:admin")
    ServedNode(tmp_path / "data", "--config", str(config)).signal(signal.SIGTERM)


def test_a_cluster(tmp_path: Path) -> None:
    """Every listener requires a login, and each node has its own certificate."""
    directory, secrets = tmp_path / "cluster", tmp_path / "cluster-secure"
    admin = ("--command-config", str(secrets / "client.properties"))
    with serving(directory, "--secure", "--nodes", "2", "--controllers", "1", "--listen", "127.0.0.1:0") as nodes:
        assert nodes.process.stdout is not None
        assert nodes.process.stdout.readline() == f"  kcli topics list -b {nodes.bootstrap} {' '.join(admin)}\n"
        nodes.run("topics", "create", "orders", "--replication-factor", "2", *admin)
        nodes.run("produce", "orders", *admin, input=b"one\n")
        assert nodes.run("users", "list", *admin).stdout.split()[-3:] == ["admin", "SCRAM-SHA-512", "4096"]
        nodes.run("tokens", "create", *admin)
        assert directory.stat().st_mode & 0o777 == 0o700
        for options in (admin, ()):  # without --command-config the admin's login beside the data is used
            status = json.loads(nodes.cluster("status", "--format", "jsonl", *options).stdout)
            assert status["healthy"], status
        explained = kcli(
            "acls", "explain", "node", "write", "topic:orders", "--data-dir", directory / "node-1" / "data"
        )
        assert (explained.stdout.splitlines()[1], explained.status) == ("rule: SuperUser", 0)
        restarted = nodes.cluster("restart", "1", "2")
        assert (restarted.stdout, restarted.status) == ("node 1 restarted\nnode 2 restarted\n", 0), restarted
        for properties in directory.glob("node-*/server.properties"):
            assert properties.stat().st_mode & 0o777 == 0o600
            for listener in read_properties(properties)["listeners"].split(","):
                assert kcli("topics", "list", "-b", listener.partition("//")[2]).status == 1
        assert nodes.end() == 0
    certificates = {path.name: path.read_bytes() for path in secrets.glob("node-*.pem")}
    assert certificates.keys() == {"node-1.pem", "node-2.pem", "node-3001.pem"}
    now = dt.datetime.now(dt.UTC)
    assert {tuple(hosts_of(each, now)) for each in certificates.values()} == {("localhost", "127.0.0.1", "::1")}
    for again in ((), ("--secure",)):
        with serving(directory, *again) as nodes:
            assert nodes.run("consume", "orders", "--exit", "--template", "%s", *admin).stdout == "one"
            assert nodes.end() == 0
    assert {path.name: path.read_bytes() for path in secrets.glob("node-*.pem")} == certificates


def test_a_cluster_that_began_without(tmp_path: Path) -> None:
    with serving(tmp_path / "open", "--nodes", "1", "--listen", "127.0.0.1:0") as nodes:
        assert nodes.end() == 0
    ended = kcli("serve", "--secure", "--data-dir", tmp_path / "open")
    assert ended.status == 1
    assert f"Next: kcli serve --secure --nodes 1 --data-dir {tmp_path / 'open'}-2" in ended.complaint
    assert not (tmp_path / "open-secure").exists()


@pytest.mark.parametrize("others", [["--read-only"], ["--nodes", "3", "--config", __file__], ["-o", "log.dirs=x"]])
def test_what_it_excludes(tmp_path: Path, others: list[str]) -> None:
    ended = kcli("serve", "--secure", "--data-dir", tmp_path / "data", *others)
    assert (ended.status, "--secure" in ended.complaint) == (2, True)
    assert list(tmp_path.iterdir()) == []
