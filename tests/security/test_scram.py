"""SCRAM: the vectors of its RFCs, and attacks. tests/interop/test_sasl_kafka.py compares it with Kafka's."""

from __future__ import annotations

import base64
import contextlib
import time

import pytest

from kcli.broker.network.secured import COUNTED_EVERY_MS, Users, cluster_key
from kcli.security.sasl import AuthenticationFailed, Login, NotTrusted, generic_failure
from kcli.security.scram import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ScramCredential,
    ScramMechanism,
    ScramServer,
    ScramUsers,
    TokenCredential,
    base36,
    new_nonce,
    server_nonce,
)
from kcli.security.scram_client import converse

# RFC 7677, section 3
NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = f"n,,n=user,r={NONCE}"
ASKED = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
ANSWERED = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_client() -> None:
    conversation = converse(SCRAM_SHA_256, "user", "pencil", NONCE)
    assert next(conversation).decode() == FIRST
    assert conversation.send(ASKED.encode()).decode() == PROOF
    with pytest.raises(StopIteration):
        conversation.send(ANSWERED.encode())


def test_a_name_with_signs_that_separate() -> None:
    assert next(converse(SCRAM_SHA_512, "a=b,c", "p", "x")).decode() == "n,,n=a=3Db=2Cc,r=x"


@pytest.mark.parametrize(
    "said",
    [
        "",
        "e=unknown-user",
        ASKED.replace(NONCE, "another"),
        ASKED.replace("i=4096", "i=0"),
        ASKED.replace("i=4096", "i=4095"),
        ASKED.replace("i=4096", "i=-1"),
        ASKED.replace("i=4096", "i=99999999999"),
        ASKED.replace("s=W22", "s=W2"),
        "\0\xff,=,r",
    ],
)
def test_a_challenge_that_is_none(said: str) -> None:
    conversation = converse(SCRAM_SHA_256, "user", "pencil", NONCE)
    next(conversation)
    with pytest.raises(NotTrusted):
        conversation.send(said.encode())


@pytest.mark.parametrize("said", ["", "v=", "v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "e=other-error", "v=é"])
def test_a_broker_that_does_not_know_the_password(said: str) -> None:
    conversation = converse(SCRAM_SHA_256, "user", "pencil", NONCE)
    next(conversation)
    conversation.send(ASKED.encode())
    with pytest.raises(NotTrusted):
        conversation.send(said.encode())


SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SECRET = b"of the cluster"


def users(
    passwords: dict[str, str], mechanism: ScramMechanism = SCRAM_SHA_256, iterations: int = 4096, salt: bytes = SALT
) -> ScramUsers:
    kept = {
        name: ScramCredential.of_password(mechanism, password, salt, iterations) for name, password in passwords.items()
    }
    tokens = {
        f"token-{name}": TokenCredential(owner=name, credential=credential, expires_ms=7)
        for name, credential in kept.items()
    }
    return ScramUsers(mechanism=mechanism, of_user=kept.get, of_token=tokens.get, decoy_key=SECRET)


USERS = users({"user": "pencil"})


def server(nonce: str = SERVER_NONCE) -> ScramServer:
    return ScramServer(USERS, nonce)


def test_server() -> None:
    served = server()
    assert served.step(FIRST.encode()).decode() == ASKED
    assert served.login is None
    assert served.step(PROOF.encode()).decode() == ANSWERED
    assert served.login == Login(name="user")


def test_the_vector_of_rfc_5802() -> None:
    sha_1 = ScramMechanism("SCRAM-SHA-1", 0, "sha1")
    salt = base64.b64decode("QSXCR+Q6sek8bf92")
    served = ScramServer(users({"user": "pencil"}, sha_1, salt=salt), "3rfcNHYJY1ZVvWVs7j")
    first = served.step(b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL")
    assert first == b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096"
    final = b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    assert served.step(final) == b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
@pytest.mark.parametrize("name", ["alice", "a=b,c", "=2C", "=,=", "with space"])
def test_both_sides(mechanism: ScramMechanism, name: str) -> None:
    served = ScramServer(users({name: "päss,=wörd"}, mechanism), new_nonce())
    conversation = converse(mechanism, name, "päss,=wörd", new_nonce())
    proof = conversation.send(served.step(next(conversation)))
    with pytest.raises(StopIteration):
        conversation.send(served.step(proof))
    assert served.login == Login(name=name)


def test_tokens() -> None:
    served = server()
    conversation = converse(SCRAM_SHA_256, "token-user", "pencil", new_nonce(), with_token=True)
    proof = conversation.send(served.step(next(conversation)))
    with pytest.raises(StopIteration):
        conversation.send(served.step(proof))
    assert served.login == Login(name="user", with_token=True, expires_ms=7)


def failure(
    served: ScramServer, name: str, password: str, *, with_token: bool = False
) -> tuple[str, AuthenticationFailed]:
    """Return the server's first message to a client, and the error of the exchange."""
    conversation = converse(SCRAM_SHA_256, name, password, NONCE, with_token=with_token)
    first = served.step(next(conversation))
    with pytest.raises(AuthenticationFailed) as raised:
        served.step(conversation.send(first))
    assert served.login is None
    return first.decode(), raised.value


def test_a_stranger_gets_what_a_wrong_password_gets() -> None:
    first, known = failure(server(), "user", "wrong")
    strange_first, strange = failure(server(), "nobody", "wrong")
    assert (
        (str(known), known.error_message)
        == (str(strange), strange.error_message)
        == ("Invalid client credentials", None)
    )
    assert strange_first.split(",s=")[0] == first.split(",s=")[0]
    assert strange_first.endswith(",i=4096")
    assert failure(server(), "nobody", "another")[0] == strange_first, "the same salt at each attempt"
    assert failure(server(), "somebody", "another")[0] != strange_first
    token_first, token = failure(server(), "user", "pencil", with_token=True)
    assert (str(token), token.error_message) == (str(known), None)
    assert "r=" in token_first
    assert failure(server(), "token-user", "pencil")[1].error_message is None


def test_too_few_iterations_are_no_credential() -> None:
    served = ScramServer(users({"user": "pencil"}, iterations=4095), SERVER_NONCE)
    assert failure(served, "user", "pencil")[0].endswith("i=4096")


def test_a_stranger_takes_the_time_of_a_wrong_password() -> None:
    proofs = {}
    for name in ("user", "nobody"):
        conversation = converse(SCRAM_SHA_256, name, "wrong", NONCE)
        hello = next(conversation)
        proofs[name] = hello, conversation.send(server().step(hello))
    times: dict[str, list[int]] = {name: [] for name in proofs}
    for _ in range(300):  # alternately, so that both run under the same load of the machine
        for name, (hello, proof) in proofs.items():
            began = time.thread_time_ns()
            served = server()
            served.step(hello)
            with pytest.raises(AuthenticationFailed):
                served.step(proof)
            times[name].append(time.thread_time_ns() - began)
    costs = [sorted(each)[len(each) // 4] for each in times.values()]
    assert max(costs) < 1.5 * min(costs), costs


@pytest.mark.parametrize(
    "message",
    [
        "",
        "n",
        "n,,",
        "n,,n=user",
        "n,,r=a,n=user",
        "n,,n=,r=a",
        "n,,n=user,r=",
        "n,,n=us=er,r=a",
        "n,,n=us=2c,r=a",
        "y,,n=user,r=a",
        "p=tls-unique,,n=user,r=a",
        "n,a=,n=user,r=a",
        "n,user,n=user,r=a",
        "n,,m=,n=user,r=a",
        "n,,n=user,r=a b",
        "n,,n=user,r=a,",
        "n,,n=user,r=a,x",
        "n,,n=user,r=a,1=x",
        "n,,n=user,r=a,x=",
        "n,,n=usér,r=a",
        "n,,n=us\0er,r=a",
        "N,,n=user,r=a",
    ],
)
def test_first_messages_that_are_none(message: str) -> None:
    served = server()
    with pytest.raises(AuthenticationFailed):
        served.step(message.encode())
    with pytest.raises(AuthenticationFailed, match="end of the exchange"):
        served.step(FIRST.encode())


PROVED = PROOF.rpartition(",p=")[0]


@pytest.mark.parametrize(
    "message",
    [
        "",
        PROVED,
        f"{PROVED},p=",
        f"{PROVED},p=====",
        f"{PROVED},p=" + base64.b64encode(bytes(31)).decode(),
        f"{PROVED},p=" + base64.b64encode(bytes(32)).decode(),
        PROOF.replace("c=biws", "c="),
        PROOF.replace("c=biws", "c=eSws"),  # "y,,": a downgrade
        PROOF.replace("k0,p=", "k1,p="),
        PROOF.replace(f"r={NONCE}", "r="),
        PROOF.replace(f"r={NONCE}", f"r=x{NONCE}"),
        PROOF.replace("p=dHzb", "p=dHzc"),
        PROOF.replace("p=dHzb", "p=dH b"),
        PROOF.replace(",p=", ",x=y,p="),
        PROOF + "\n",
        FIRST,
        "é",
    ],
)
def test_final_messages_without_a_proof(message: str) -> None:
    served = server()
    served.step(FIRST.encode())
    with pytest.raises(AuthenticationFailed) as raised:
        served.step(message.encode())
    assert raised.value.error_message is None
    assert served.login is None
    with pytest.raises(AuthenticationFailed, match="end of the exchange"):
        served.step(PROOF.encode())
    assert served.login is None


def test_a_proof_counts_once_and_for_its_nonce_alone() -> None:
    served = server()
    served.step(FIRST.encode())
    served.step(PROOF.encode())
    with pytest.raises(AuthenticationFailed):
        served.step(PROOF.encode())
    assert served.login is None, "who goes on after the end is out"
    replayed = server(new_nonce())
    replayed.step(FIRST.encode())
    with pytest.raises(AuthenticationFailed, match="nonce"):
        replayed.step(PROOF.encode())


@pytest.mark.parametrize(
    ("channel", "is_taken"), [(b"n,,", True), (b"y,,", False), (b"", False), (b"n,a=user,", False)]
)
def test_the_header_of_the_first_message_is_proved_as_well(channel: bytes, *, is_taken: bool) -> None:
    """A client that knows the password notices that the header was changed on its way."""
    served = server()
    asked = served.step(FIRST.encode()).decode()
    without_proof = f"c={base64.b64encode(channel).decode()},r={NONCE}{SERVER_NONCE}"
    auth_message = f"{FIRST.removeprefix('n,,')},{asked},{without_proof}".encode()
    client_key = SCRAM_SHA_256.hmac(SCRAM_SHA_256.salted("pencil", SALT, 4096), b"Client Key")
    signature = SCRAM_SHA_256.hmac(SCRAM_SHA_256.hash(client_key), auth_message)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    message = f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
    if is_taken:
        served.step(message)
    else:
        with pytest.raises(AuthenticationFailed, match="another header"):
            served.step(message)
    assert (served.login is not None) == is_taken


def test_no_step_may_be_skipped() -> None:
    with pytest.raises(AuthenticationFailed):
        server().step(PROOF.encode())


def test_another_name_than_the_proved_one() -> None:
    served = ScramServer(users({"user": "pencil", "admin": "secret"}), SERVER_NONCE)
    with pytest.raises(AuthenticationFailed, match="different from username") as raised:
        served.step(f"n,a=admin,n=user,r={NONCE}".encode())
    assert raised.value.error_message == str(raised.value)
    assert server().step(f"n,a=user,n=user,r={NONCE}".encode()).decode() == ASKED


def test_nonces() -> None:
    for new in (new_nonce, server_nonce):
        nonces = {new() for _ in range(10_000)}
        assert len(nonces) == 10_000
        assert {each for nonce in nonces for each in nonce} == set("0123456789abcdefghijklmnopqrstuvwxyz")
    assert (base36(b""), base36(bytes([35])), base36(b"\xff" * 17)) == ("0", "z", int_base36((1 << 130) - 1))


def int_base36(number: int) -> str:
    text = base36(number.to_bytes(17))
    assert int(text, 36) == number
    return text


def test_no_secret_in_a_repr() -> None:
    shown = f"{USERS} {USERS.of_user('user')} {USERS.of_token('token-user')}"
    assert "stored_key" not in shown
    assert "of the cluster" not in shown


def test_what_a_client_is_told() -> None:
    assert generic_failure("SCRAM-SHA-256") == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    )


LONG = 500_000


@pytest.mark.parametrize(
    "message",
    [
        f"n,,n=alice,r={'x' * 9}{',a=b' * (LONG // 4)}",
        f"n,,n=alice,r=x{',' * LONG}",
        f"n,,n={'=2C' * (LONG // 3)},r=x",
        f"n,a={'=2C' * (LONG // 3)},n=alice,r=x",
        f"n,a={'=3D2C' * (LONG // 5)}=,n=alice,r=x",
        f"n,,{'m=a,' * (LONG // 4)}n=alice,r=x",
    ],
    ids=lambda message: message[:16],
)
def test_the_longest_messages_are_read_in_a_moment(message: str) -> None:
    """Such messages came from clients that had not logged in, and blocked the event loop for 200 ms."""
    took_s = min(_cpu_s(message) for _ in range(3))
    assert took_s < 0.06


def _cpu_s(message: str) -> float:
    began_s = time.thread_time()
    with contextlib.suppress(AuthenticationFailed):
        server().step(message.encode())
    return time.thread_time() - began_s


def test_decoys_have_the_iterations_of_most_users() -> None:
    records = {(1, f"u{i}"): {"iterations": 8192 if i else 4096} for i in range(3)}
    records |= {(2, f"v{i}"): {"iterations": 10_000} for i in range(9)}
    now_ms = 0
    found = Users(lambda: now_ms, lambda: records)
    assert found.of(SCRAM_SHA_256).decoy("nobody").iterations == 8192
    assert found.of(SCRAM_SHA_512).decoy("nobody").iterations == 10_000
    records.clear()
    now_ms += COUNTED_EVERY_MS
    assert found.of(SCRAM_SHA_256).decoy("nobody").iterations == SCRAM_SHA_256.iterations_min


def test_the_salts_of_decoys_are_a_clusters_own() -> None:
    """The salts are the same on all nodes of the cluster, and after a restart."""

    def salt(cluster_id: str, secret_key: str) -> bytes:
        found = Users(lambda: 0)
        found.of(SCRAM_SHA_256)
        found.decoy_key = cluster_key(cluster_id, secret_key)
        return found.of(SCRAM_SHA_256).decoy("nobody").salt

    assert salt("a", "s") == salt("a", "s")
    assert len({salt("a", "s"), salt("b", "s"), salt("a", "t"), salt("a", "")}) == 4
