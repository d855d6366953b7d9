"""Config providers: kcli resolves what Kafka resolves, refuses to start where Kafka leaves a variable as it is, and
shows no secret."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path

import pytest
from joserfc.jwk import OctKey

from kcli.broker.config import BrokerConfig
from kcli.broker.config.broker_keys import BROKER_KEYS
from kcli.broker.config.describe import describe
from kcli.broker.config.dynamic import validate_dynamic
from kcli.broker.config.names import listener_config
from kcli.broker.config.security import LOGINS
from kcli.broker.config.served import CannotServe, check_served
from kcli.broker.network.token_keys import KeyEndpoint, KeyFile
from kcli.log.config import InvalidConfig
from kcli.log.config_providers import resolve
from kcli.metadata.image import BROKER_RESOURCE, MetadataImage
from kcli.security.oauth import InvalidToken
from tests.broker.config.test_served import NODE, SASL, enabled, login

CLASS = "org.apache.kafka.common.config.provider."
PROVIDERS = {
    "config.providers": "file,dir,env",
    "config.providers.file.class": f"{CLASS}FileConfigProvider",
    "config.providers.dir.class": f"{CLASS}DirectoryConfigProvider",
    "config.providers.env.class": f"{CLASS}EnvVarConfigProvider",
}
SECRET = "hush-hush"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.properties").write_text(f"password = {SECRET}\nparts=3\nempty=\nagain=${{env:WHO}}\n")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "key").write_text("one\ntwo\n")
    (tmp_path / "secrets" / "latin").write_bytes(b"\xff")
    monkeypatch.setenv("WHO", SECRET)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${file:DIR/a.properties:password}", SECRET),
        ("<${env:WHO}|${file:DIR/a.properties:parts}>", f"<{SECRET}|3>"),
        ("${dir:DIR/secrets:key}", "one\ntwo\n"),
        ("${file:DIR/a.properties:empty}", ""),
        ("${file:DIR/a.properties:again}", "${env:WHO}"),
        ("$env:WHO ${WHO} {env:WHO} $${env:WHO}", f"$env:WHO ${{WHO}} {{env:WHO}} ${SECRET}"),
    ],
)
def test_a_value_is_resolved_as_kafkas(text: str, value: str, folder: Path) -> None:
    """A variable is resolved once, at any place in a value, but not in a name."""
    found = resolve({**PROVIDERS, "a": text.replace("DIR", str(folder)), "${env:WHO}": "b"}).properties
    assert found == {**PROVIDERS, "a": value, "${env:WHO}": "b"}


@pytest.mark.parametrize(
    ("changes", "text", "reason"),
    [
        ({}, "${vault:WHO}", "a: config.providers names no provider 'vault' with a class"),
        ({"config.providers": ""}, "${env:WHO}", "a: config.providers names no provider 'env' with a class"),
        ({"config.providers.env.class": ""}, "${env:WHO}", "a: config.providers names no provider 'env' with a class"),
        ({}, "${env:NOBODY}", "a: the provider 'env' has no key 'NOBODY'"),
        ({}, "${env:DIR:WHO}", "a: the provider of environment variables takes no path"),
        ({}, "${file:DIR/a.properties:none}", "a: the provider 'file' has no key 'none' in DIR/a.properties"),
        ({}, "${file:DIR/none:x}", "a: DIR/none: No such file or directory"),
        ({}, "${file:x}", "a: the provider needs a path"),
        ({}, "${dir:DIR/secrets:none}", "a: the provider 'dir' has no key 'none' in DIR/secrets"),
        ({}, "${dir:DIR/secrets:../a.properties}", "a: the provider 'dir' has no key '../a.properties' in DIR/secrets"),
        ({}, "${dir:DIR/secrets:latin}", "a: DIR/secrets/latin: not a text in UTF-8"),
        ({"config.providers.env.param.allowlist.pattern": "W"}, "${env:WHO}", "a: the provider 'env' has no key 'WHO'"),
        (
            {"config.providers.env.param.allowlist.pattern": "("},
            "b",
            "config.providers.env.param.allowlist.pattern: missing )",
        ),
        (
            {"config.providers.file.param.allowed.paths": "DIR/secrets"},
            "${file:DIR/secrets/../a.properties:password}",
            "a: allowed.paths of the provider has not DIR/secrets/../a.properties",
        ),
        (
            {"config.providers.dir.param.allowed.paths": "here"},
            "b",
            "config.providers.dir.param.allowed.paths: here is not absolute",
        ),
        (
            {"config.providers.dir.param.allowed.paths": "DIR/none"},
            "b",
            "config.providers.dir.param.allowed.paths: DIR/none does not exist",
        ),
        (
            {"config.providers.env.class": "acme.Vault"},
            "b",
            (
                "config.providers.env.class: only FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider of "
                "org.apache.kafka.common.config.provider are there"
            ),
        ),
    ],
)
def test_what_no_provider_has_ends_the_start(changes: dict[str, str], text: str, reason: str, folder: Path) -> None:
    """Kafka keeps a variable that no provider resolves as text: whoever knows the file would know the password. kcli
    does not start."""
    properties = {**PROVIDERS, **changes, "a": text}
    with pytest.raises(InvalidConfig) as raised:
        resolve({name: each.replace("DIR", str(folder)) for name, each in properties.items()})
    assert str(raised.value) == reason.replace("DIR", str(folder))


def test_an_allowed_path_is_read(folder: Path) -> None:
    allowed = {"config.providers.file.param.allowed.paths": f"/usr,{folder}/secrets/.."}
    found = resolve({**PROVIDERS, **allowed, "a": f"${{file:{folder}/secrets/../a.properties:parts}}"})
    assert found.properties["a"] == "3"
    assert SECRET not in repr(found)


def test_no_error_tells_a_secret(folder: Path) -> None:
    with pytest.raises(InvalidConfig) as raised:
        BrokerConfig({**NODE, **PROVIDERS, "num.partitions": "${env:WHO}"})
    assert "num.partitions" in str(raised.value)
    assert SECRET not in str(raised.value)
    text = f'{LOGINS["PLAIN"]} required user_a="${{env:WHO}}" ${{env:WHO}};'
    config = BrokerConfig({**NODE, **PROVIDERS, **SASL, **enabled("PLAIN"), **login("PLAIN", text)})
    for other in (config, BrokerConfig({**NODE, **PROVIDERS, "kafka.metrics.reporters": "${env:WHO}"})):
        with pytest.raises(CannotServe) as refused:
            check_served(other)
        assert SECRET not in str(refused.value)
        assert refused.value.__cause__ is None


@pytest.mark.parametrize("url", [f"https://h.invalid/{SECRET}/", f"https://{SECRET}.invalid/", f"file:///{SECRET}"])
def test_no_line_about_the_keys_of_tokens_tells_a_secret(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def hide(text: str) -> str:
        return text.replace(SECRET, "[hidden]")

    if url.startswith("file:"):
        path = tmp_path / SECRET
        path.write_text(json.dumps({"keys": [OctKey.generate_key(256).as_dict(private=True)]}))
        keys = KeyFile(path, hide)
        path.unlink()
        with pytest.raises(InvalidToken):
            keys.claims("a.b.c")
        text = caplog.text
    else:
        with pytest.raises(CannotServe) as refused:
            asyncio.run(KeyEndpoint(url, ssl.create_default_context(), 60, 0.001, 1, hide).fetch_first())
        text = str(refused.value)
    assert "[hidden]" in text
    assert SECRET not in text


def test_a_dynamic_configuration_has_no_variables(folder: Path) -> None:
    config = BrokerConfig({**NODE, **PROVIDERS})
    with pytest.raises(InvalidConfig, match=r"server.properties alone.*: \[ssl.nothing\]"):
        validate_dynamic(config, {"ssl.nothing": "${env:WHO}"}, per_broker=True)


def test_no_password_is_described(folder: Path) -> None:
    """DescribeConfigs shows no password: neither the broker's, nor a listener's or a mechanism's, from whichever source
    it comes."""
    passwords = [name for name, key in BROKER_KEYS.items() if key.is_sensitive]
    assert {"ssl.keystore.key", "sasl.jaas.config", "delegation.token.secret.key"} < set(passwords)
    names = [*passwords, *(f"listener.name.x.{name}" for name in passwords)]
    names += ["listener.name.x.scram-sha-256.sasl.jaas.config", "not.kafkas", "config.providers.env.param.token"]
    texts = dict.fromkeys(names, SECRET)
    for static, cluster, broker in ((texts, {}, {}), ({}, texts, {}), ({}, {}, texts), (texts, texts, texts)):
        config = BrokerConfig({**NODE, **PROVIDERS, **static}).changed(cluster, broker)
        for name in ("1", ""):
            entries = {each.name: each for each in describe(config, MetadataImage(), BROKER_RESOURCE, name)}
            assert SECRET not in repr(entries)
            shown = [entries[each] for each in names if each in entries]
            assert all(each.is_sensitive and each.value is None for each in shown)
            assert name == "" or {each.name for each in shown} == set(names)
    assert listener_config(names[-4]) is not None
