"""`kcli format`: what it writes, prints and refuses is what `kafka-storage format` does."""

from __future__ import annotations

import difflib
import subprocess
from pathlib import Path

from tests.cli.run import KCLI, kcli
from tests.interop.formatting import EXPECTED, Printed, report

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
CONTROLLER = """process.roles=controller
node.id=1
controller.quorum.voters=1@localhost:9093
listeners=CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
"""


def test_as_kafka_formats(tmp_path: Path) -> None:
    """format.expected is by real Kafka."""

    def run(arguments: list[str]) -> Printed:
        ended = kcli("format", *arguments, cwd=tmp_path)
        complaint = ended.complaint.removeprefix("kcli: ") if ended.status else ended.stderr
        return Printed(ended.stdout, complaint, ended.status == 0)

    lines = difflib.unified_diff(EXPECTED.read_text().splitlines(), report(run, tmp_path).splitlines(), lineterm="")
    assert not "\n".join(lines)


def properties(directory: Path, text: str = CONTROLLER) -> Path:
    path = directory / "server.properties"
    path.write_text(f"{text}log.dirs={directory / 'data'}\n")
    return path


def test_what_it_needs(tmp_path: Path) -> None:
    file = properties(tmp_path)
    for arguments in (["-c", file], ["-t", CLUSTER_ID], ["-t", "", "-c", file]):
        ended = kcli("format", *arguments)
        assert (ended.status, ended.complaint) == (2, "kcli: --cluster-id and --config are needed")
    ended = kcli("format", "-t", CLUSTER_ID, "-c", tmp_path / "nope")
    assert (ended.status, "does not exist" in ended.stderr) == (2, True)
    assert not (tmp_path / "data").exists()


def test_the_directory_of_another_node(tmp_path: Path) -> None:
    file = properties(tmp_path)
    assert kcli("format", "-t", CLUSTER_ID, "-c", file).status == 0
    ended = kcli("format", "-t", "another", "-c", file, "-g")
    assert (ended.status, ended.complaint) == (1, f"kcli: {tmp_path / 'data'}: cluster.id is {CLUSTER_ID}, not another")
    file.write_text(file.read_text().replace("node.id=1", "node.id=7").replace("1@", "7@"))
    ended = kcli("format", "-t", CLUSTER_ID, "-c", file, "-g")
    assert (ended.status, ended.complaint) == (1, f"kcli: {tmp_path / 'data'}: node.id is 1, not 7")


def test_ways_to_a_quorum_exclude_each_other(tmp_path: Path) -> None:
    file = properties(tmp_path)
    ended = kcli("format", "-t", CLUSTER_ID, "-c", file, "-s", "-N")
    assert (ended.status, ended.complaint) == (
        2,
        "kcli: --standalone, --initial-controllers and --no-initial-controllers exclude each other",
    )


def test_a_user_of_the_format_logs_in(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    node = (
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n"
        "listeners=SASL_PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT\n"
        "security.inter.broker.protocol=SASL_PLAINTEXT\nsasl.mechanism.inter.broker.protocol=SCRAM-SHA-512\n"
        "sasl.enabled.mechanisms=SCRAM-SHA-512\n"
        f"listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config={module} required;\n"
    )
    file = properties(tmp_path, node)
    user = "SCRAM-SHA-512=[name=admin,password=secret,iterations=8192]"
    assert kcli("format", "-t", CLUSTER_ID, "-c", file, "-S", user).status == 0
    with subprocess.Popen([*KCLI, "serve", "--config", str(file)], stdout=subprocess.PIPE, text=True) as served:
        try:
            assert served.stdout is not None
            address = served.stdout.readline().split()[2]
            for password, status in (("secret", 0), ("Secret", 1)):
                login = f'sasl.jaas.config={module} required username="admin" password="{password}";\n'
                client = tmp_path / "client.properties"
                client.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n{login}")
                ended = kcli("users", "list", "-b", address, "--command-config", client)
                assert ended.status == status, ended
                assert ("SCRAM-SHA-512  8192" in ended.stdout) is (status == 0)
        finally:
            served.terminate()


def test_voters_that_are_none(tmp_path: Path) -> None:
    file = properties(tmp_path, CONTROLLER.replace("voters=1@", "bootstrap.servers="))
    for word in ("x", "@", "1@", "1@h:1", "1@h:x:JEXY6aqzQY-32P5TStzaFg", "1@h:70000:JEXY6aqzQY-32P5TStzaFg",
                 "1@h:1:short", "9999999999@h:1:JEXY6aqzQY-32P5TStzaFg", "1@[h:1:JEXY6aqzQY-32P5TStzaFg"):  # fmt: skip
        ended = kcli("format", "-t", CLUSTER_ID, "-c", file, "-I", word)
        complaint = f"kcli: --initial-controllers: {word!r} is not id@host:port:directory"
        assert (ended.status, ended.complaint) == (2, complaint)
    ended = kcli("format", "-t", CLUSTER_ID, "-c", file, "-I", " , ")
    assert ended.complaint == "kcli: --initial-controllers: No voters given."
    twice = "1@h:1:JEXY6aqzQY-32P5TStzaFg,1@h:2:MvDxzVmcRsaTz33bUuRU6A"
    ended = kcli("format", "-t", CLUSTER_ID, "-c", file, "-I", twice)
    assert ended.complaint == "kcli: --initial-controllers: Node id 1 was specified more than once."
    assert not (tmp_path / "data").exists()


def test_a_file_where_a_directory_is_to_be(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    ended = kcli("format", "-t", CLUSTER_ID, "-c", properties(tmp_path))
    assert ended.status == 2
    assert ended.complaint.startswith(f"kcli: {tmp_path / 'data'}")


def test_a_random_id_can_be_that_of_a_cluster(tmp_path: Path) -> None:
    made = kcli("format", "--random-uuid").stdout.strip()
    assert len(made) == 22
    assert kcli("format", "-t", made, "-c", properties(tmp_path)).status == 0
    assert f"cluster.id={made}\n" in (tmp_path / "data" / "meta.properties").read_text()
