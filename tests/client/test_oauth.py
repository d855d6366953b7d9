"""OAUTHBEARER of kcli's clients, over its own connections and librdkafka's: tokens from an endpoint, or a file."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.client.command_config import librdkafka_properties
from kcli.client.oauth import Endpoint, NoToken, Tokens
from kcli.errors import UsageError
from kcli.security.oauth import InvalidToken, OAuthServer, OAuthToken
from kcli.security.oauth_client import client_token, converse
from kcli.security.sasl import NotTrusted
from tests.broker.security.secured import Secured, secured_node
from tests.cli.run import Ended, kcli
from tests.client.endpoint import MODULE, TokenEndpoint, as_file, client_properties, token_endpoint
from tests.security.tokens import Issuer, part


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_node(tmp_path_factory.mktemp("node")) as node:
        yield node


@pytest.fixture(scope="module")
def endpoint(secured: Secured) -> Iterator[TokenEndpoint]:
    with token_endpoint(secured.issuer) as found:
        yield found


@pytest.fixture
def run(secured: Secured, tmp_path: Path, endpoint: TokenEndpoint) -> Iterator[Run]:
    endpoint.requests.clear()
    yield Run(secured, tmp_path)
    endpoint.answer = None


class Run:
    """kcli as a client with a file of --command-config."""

    def __init__(self, secured: Secured, folder: Path) -> None:
        self.address, self.file = f"127.0.0.1:{secured.port('SASL')}", folder / "client.properties"
        self.folder = folder

    def __call__(self, properties: dict[str, str], *command: str) -> Ended:
        self.file.write_text(as_file(properties))
        return kcli(*command, "-b", self.address, "--command-config", self.file, "--timeout", "5")


OWN, LIBRDKAFKAS = ("users", "list"), ("topics", "list")


@pytest.mark.parametrize("command", [OWN, LIBRDKAFKAS], ids=["own", "librdkafka"])
def test_client_credentials(command: tuple[str, ...], run: Run, endpoint: TokenEndpoint) -> None:
    assert run(client_properties(endpoint.url), *command) == ("", "", 0)
    headers, body = endpoint.requests[0]
    login = base64.b64encode(b"me: & you:hush/hush").decode()
    assert (headers["Authorization"], headers["Content-Type"]) == (
        f"Basic {login}",
        "application/x-www-form-urlencoded",
    )
    assert body == "grant_type=client_credentials&scope=a b/c"


def test_encoded_credentials_of_the_login_module(run: Run, endpoint: TokenEndpoint) -> None:
    """The encoded credentials apply where the settings that replaced them are missing."""
    options = 'clientId="me: & you" clientSecret="hush/hush" scope="a b/c" extension_tenant="one two"'
    properties = client_properties(endpoint.url, **{"sasl.oauthbearer.header.urlencode": "true"})
    properties["sasl.jaas.config"] = f"{MODULE} required {options};"
    named = {name: text for name, text in properties.items() if "credentials" not in name and "scope" not in name}
    assert run(named, *OWN) == ("", "", 0)
    headers, body = endpoint.requests[0]
    assert base64.b64decode(headers["Authorization"].split()[1]) == b"me%3A+%26+you:hush%2Fhush"
    assert body == "grant_type=client_credentials&scope=a+b%2Fc"


@pytest.mark.parametrize("command", [OWN, LIBRDKAFKAS], ids=["own", "librdkafka"])
def test_a_file(command: tuple[str, ...], run: Run, endpoint: TokenEndpoint) -> None:
    file = run.folder / "a token"
    properties = client_properties(file.as_uri())
    file.write_text(f"{endpoint.token()}\n")
    assert run(properties, *command) == ("", "", 0)
    file.write_text(Issuer().token({"sub": "alice", "exp": 2**40}))
    refused = run(properties, *command)
    assert (refused.status, "invalid" in refused.complaint.lower()) == (1, True), refused
    assert file.read_text() not in refused.stderr
    for text, reason in {"": "not three parts", "a.b.c": "no JWT", endpoint.token(-10): "has expired"}.items():
        file.write_text(text)
        ended = run(properties, *command)
        assert (ended.status, reason in ended.complaint, "a%20token" in ended.complaint) == (1, True, True), ended
    file.unlink()
    assert "No such file" in run(properties, *command).complaint


def test_what_an_endpoint_may_answer(endpoint: TokenEndpoint) -> None:
    def token() -> str:
        url = endpoint.url.replace("http://", "http://user:hush@") + "?key=hush"
        return Tokens(Endpoint(url, "me", "hush"), {}).token().text

    for name in ("access_token", "id_token"):
        good = endpoint.token()
        endpoint.answer = 201, f'{{"{name}": " {good} "}}'.encode()
        assert token() == good
    for status, body, reason in [
        (401, b"{}", "HTTP 401"),
        (302, b"", "HTTP 302"),
        (200, b"[]", "no JSON object"),
        (200, b"[" * 100_000, "no JSON object"),
        (200, b'{"access_token": 1}', "with an access_token"),
        (200, b" " * 200_000, "too long"),
        (200, b'{"access_token": "a.b.c"}', "no JWT"),
        (200, f'{{"access_token": "{endpoint.token(-5)}"}}'.encode(), "has expired"),
    ]:
        endpoint.answer = status, body
        with pytest.raises(NoToken) as failed:
            token()
        assert reason in str(failed.value)
        assert "hush" not in str(failed.value)
    endpoint.answer = None


def test_a_token_is_taken_until_it_expires(endpoint: TokenEndpoint) -> None:
    endpoint.requests.clear()
    tokens = Tokens(Endpoint(endpoint.url), {})
    assert tokens.token() is tokens.token()
    assert len(endpoint.requests) == 1
    endpoint.answer = 200, f'{{"access_token": "{endpoint.token(5)}"}}'.encode()
    short = Tokens(Endpoint(endpoint.url), {})
    assert short.token() is not short.token()
    endpoint.answer = None


def test_the_conversation() -> None:
    def validate(token: str) -> OAuthToken:
        assert token == "a.b.c"
        return OAuthToken(name="alice", expires_ms=7, scopes=frozenset())

    server, client = OAuthServer(validate), converse("a.b.c", {"tenant": "one", "other": "two words"})
    first = next(client)
    assert first == b"n,,\x01auth=Bearer a.b.c\x01tenant=one\x01other=two words\x01\x01"
    with pytest.raises(StopIteration):
        client.send(server.step(first))
    assert server.login is not None
    refused = converse("a.b.c", {})
    next(refused)
    assert refused.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(NotTrusted):
        next(refused)


def test_claims_that_a_client_looks_at() -> None:
    for claims in ({}, {"sub": " ", "exp": 1}, {"sub": "a"}, {"sub": "a", "exp": True}, {"sub": "a", "exp": 1e300}):
        with pytest.raises(InvalidToken, match=r"sub|exp"):
            client_token(f"x.{part(claims)}.y")
    found = client_token(f"x.{part({'sub': 'a', 'exp': 7.5})}.y")
    assert (found.name, found.expires_ms, "x." in repr(found)) == ("a", 7500, False)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sasl.login.callback.handler.class": ""}, "sasl.login.callback.handler.class: must be"),
        ({"sasl.login.callback.handler.class": "my.Handler"}, "sasl.login.callback.handler.class: must be"),
        ({"sasl.oauthbearer.token.endpoint.url": ""}, "sasl.oauthbearer.token.endpoint.url: must be there"),
        ({"sasl.oauthbearer.client.credentials.client.secret": ""}, "client.credentials.client.secret: must be there"),
        ({"sasl.oauthbearer.jwt.retriever.class": "x"}, "sasl.oauthbearer.jwt.retriever.class: not honoured"),
        ({"sasl.oauthbearer.assertion.file": "x"}, "sasl.oauthbearer.assertion.file: not honoured"),
        ({"sasl.login.read.timeout.ms": "1"}, "sasl.login.read.timeout.ms: not honoured"),
        ({"sasl.jaas.config": f"{MODULE} required extension_auth=x;"}, "extension 'auth'"),
        ({"sasl.jaas.config": f"{MODULE} required extension_a1=x;"}, "extension 'a1'"),
        ({"sasl.jaas.config": f"{MODULE} required unsecuredLoginStringClaim_sub=x;"}, "unsecuredLoginStringClaim_sub"),
        ({"sasl.jaas.config": f"{MODULE} required ssl.truststore.location='/nope';"}, "ssl.truststore.location"),
    ],
)
def test_what_is_refused(changes: dict[str, str], reason: str) -> None:
    with pytest.raises(UsageError) as refused:
        librdkafka_properties(client_properties("http://127.0.0.1:1/") | changes)
    assert reason in str(refused.value)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("url", ["ftp://x", "x", "http://", "file:", "http://x:port/"])
def test_no_endpoint(url: str) -> None:
    with pytest.raises(UsageError, match="no URL"):
        Tokens(Endpoint(url), {})
