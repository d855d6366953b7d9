"""The options for TLS and SASL that a connector has whose clients Kafka's classes make, with their types and defaults.

They are there to be listed and checked. Which of them kcli's own clients honour is kcli.client.command_config's matter.
Source: SslConfigs and SaslConfigs of Kafka's clients 4.3.
"""

from __future__ import annotations

from typing import Final

from kcli.connect.config import validators
from kcli.connect.config.config_def import ConfigDef, ConfigKey, Importance, Type

HIGH, MEDIUM, LOW = Importance


TLS_AND_SASL: Final = ConfigDef(
    ConfigKey("ssl.protocol", Type.STRING, "TLSv1.3", MEDIUM, "The protocol of TLS."),
    ConfigKey("ssl.provider", Type.STRING, None, MEDIUM, "Java's provider of TLS."),
    ConfigKey("ssl.cipher.suites", Type.LIST, "", LOW, "The cipher suites to offer; none for all."),
    ConfigKey("ssl.enabled.protocols", Type.LIST, "TLSv1.2,TLSv1.3", MEDIUM, "The versions of TLS."),
    ConfigKey("ssl.keystore.type", Type.STRING, "JKS", MEDIUM, "The format of the key store."),
    ConfigKey("ssl.keystore.location", Type.STRING, None, HIGH, "The file with the client's key."),
    ConfigKey("ssl.keystore.password", Type.PASSWORD, None, HIGH, "The password of the key store."),
    ConfigKey("ssl.key.password", Type.PASSWORD, None, HIGH, "The password of the key."),
    ConfigKey("ssl.keystore.key", Type.PASSWORD, None, HIGH, "The client's key as PEM."),
    ConfigKey("ssl.keystore.certificate.chain", Type.PASSWORD, None, HIGH, "The client's certificates as PEM."),
    ConfigKey("ssl.truststore.certificates", Type.PASSWORD, None, HIGH, "The trusted certificates as PEM."),
    ConfigKey("ssl.truststore.type", Type.STRING, "JKS", MEDIUM, "The format of the trust store."),
    ConfigKey("ssl.truststore.location", Type.STRING, None, HIGH, "The file with the trusted certificates."),
    ConfigKey("ssl.truststore.password", Type.PASSWORD, None, HIGH, "The password of the trust store."),
    ConfigKey("ssl.keymanager.algorithm", Type.STRING, "SunX509", LOW, "The algorithm of Java's key manager."),
    ConfigKey("ssl.trustmanager.algorithm", Type.STRING, "PKIX", LOW, "The algorithm of Java's trust manager."),
    ConfigKey(
        "ssl.endpoint.identification.algorithm",
        Type.STRING,
        "https",
        LOW,
        "https: the host of a certificate is checked; empty: it is not.",
    ),
    ConfigKey("ssl.secure.random.implementation", Type.STRING, None, LOW, "Java's generator of random numbers."),
    ConfigKey("ssl.engine.factory.class", Type.CLASS, None, LOW, "The class that makes Java's TLS engines."),
    ConfigKey("sasl.kerberos.service.name", Type.STRING, None, MEDIUM, "Kerberos: the service of the brokers."),
    ConfigKey("sasl.kerberos.kinit.cmd", Type.STRING, "/usr/bin/kinit", LOW, "Kerberos: the command kinit."),
    ConfigKey(
        "sasl.kerberos.ticket.renew.window.factor",
        Type.DOUBLE,
        0.8,
        LOW,
        "Kerberos: the part of a ticket's time after which it is renewed.",
    ),
    ConfigKey("sasl.kerberos.ticket.renew.jitter", Type.DOUBLE, 0.05, LOW, "Kerberos: the random part of that time."),
    ConfigKey(
        "sasl.kerberos.min.time.before.relogin",
        Type.LONG,
        60_000,
        LOW,
        "Kerberos: the shortest time between two renewals, in ms.",
    ),
    ConfigKey(
        "sasl.login.refresh.window.factor",
        Type.DOUBLE,
        0.8,
        LOW,
        "The part of a token's time after which it is renewed.",
        validators.between(0.5, 1.0),
    ),
    ConfigKey(
        "sasl.login.refresh.window.jitter",
        Type.DOUBLE,
        0.05,
        LOW,
        "The random part of that time.",
        validators.between(0.0, 0.25),
    ),
    ConfigKey(
        "sasl.login.refresh.min.period.seconds",
        Type.SHORT,
        60,
        LOW,
        "The shortest time between two renewals.",
        validators.between(0, 900),
    ),
    ConfigKey(
        "sasl.login.refresh.buffer.seconds",
        Type.SHORT,
        300,
        LOW,
        "How long before its end a token is renewed at the latest.",
        validators.between(0, 3600),
    ),
    ConfigKey("sasl.mechanism", Type.STRING, "GSSAPI", MEDIUM, "The mechanism of the login."),
    ConfigKey("sasl.jaas.config", Type.PASSWORD, None, MEDIUM, "The login: Java's login module with its options."),
    ConfigKey(
        "sasl.client.callback.handler.class",
        Type.CLASS,
        None,
        MEDIUM,
        "The class that answers the mechanism's questions.",
    ),
    ConfigKey(
        "sasl.login.callback.handler.class", Type.CLASS, None, MEDIUM, "The class that answers the login's questions."
    ),
    ConfigKey("sasl.login.class", Type.CLASS, None, MEDIUM, "The class that logs in."),
    ConfigKey(
        "sasl.login.connect.timeout.ms", Type.INT, None, LOW, "How long to wait for a connection to the token endpoint."
    ),
    ConfigKey("sasl.login.read.timeout.ms", Type.INT, None, LOW, "How long to wait for the token endpoint's answer."),
    ConfigKey(
        "sasl.login.retry.backoff.max.ms", Type.LONG, 10_000, LOW, "The longest time between two tries of a login."
    ),
    ConfigKey("sasl.login.retry.backoff.ms", Type.LONG, 100, LOW, "The shortest time between two tries of a login."),
    ConfigKey(
        "sasl.oauthbearer.jwt.retriever.class",
        Type.CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        MEDIUM,
        "The class that fetches tokens.",
    ),
    ConfigKey(
        "sasl.oauthbearer.jwt.validator.class",
        Type.CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        MEDIUM,
        "The class that checks tokens.",
    ),
    ConfigKey("sasl.oauthbearer.scope", Type.STRING, None, MEDIUM, "The scope of a token that is asked for."),
    ConfigKey(
        "sasl.oauthbearer.client.credentials.client.id",
        Type.STRING,
        None,
        MEDIUM,
        "The client's id at the token endpoint.",
    ),
    ConfigKey(
        "sasl.oauthbearer.client.credentials.client.secret",
        Type.PASSWORD,
        None,
        MEDIUM,
        "The client's secret at the token endpoint.",
    ),
    ConfigKey(
        "sasl.oauthbearer.assertion.algorithm",
        Type.STRING,
        "RS256",
        MEDIUM,
        "How an assertion is signed.",
        validators.one_of_ignoring_case("ES256", "RS256"),
    ),
    ConfigKey("sasl.oauthbearer.assertion.claim.aud", Type.STRING, None, MEDIUM, "The audience of an assertion."),
    ConfigKey(
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        Type.INT,
        300,
        LOW,
        "How long an assertion holds.",
        validators.between(0, 86400),
    ),
    ConfigKey("sasl.oauthbearer.assertion.claim.iss", Type.STRING, None, MEDIUM, "The issuer of an assertion."),
    ConfigKey(
        "sasl.oauthbearer.assertion.claim.jti.include", Type.BOOLEAN, "false", MEDIUM, "Whether an assertion has an id."
    ),
    ConfigKey(
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        Type.INT,
        60,
        LOW,
        "How long before now an assertion begins to hold.",
        validators.between(0, 3600),
    ),
    ConfigKey("sasl.oauthbearer.assertion.claim.sub", Type.STRING, None, MEDIUM, "The subject of an assertion."),
    ConfigKey("sasl.oauthbearer.assertion.file", Type.STRING, None, MEDIUM, "The file with an assertion."),
    ConfigKey(
        "sasl.oauthbearer.assertion.private.key.file",
        Type.STRING,
        None,
        MEDIUM,
        "The file with the key that signs assertions.",
    ),
    ConfigKey(
        "sasl.oauthbearer.assertion.private.key.passphrase", Type.PASSWORD, None, MEDIUM, "The password of that key."
    ),
    ConfigKey(
        "sasl.oauthbearer.assertion.template.file",
        Type.STRING,
        None,
        MEDIUM,
        "The file with further claims of assertions.",
    ),
    ConfigKey("sasl.oauthbearer.scope.claim.name", Type.STRING, "scope", LOW, "The claim with the scope."),
    ConfigKey("sasl.oauthbearer.sub.claim.name", Type.STRING, "sub", LOW, "The claim with the subject."),
    ConfigKey(
        "sasl.oauthbearer.token.endpoint.url", Type.STRING, None, MEDIUM, "The token endpoint, or a file with a token."
    ),
    ConfigKey("sasl.oauthbearer.jwks.endpoint.url", Type.STRING, None, MEDIUM, "Where the keys that check tokens are."),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms", Type.LONG, 3_600_000, LOW, "How often these keys are fetched."
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        Type.LONG,
        10_000,
        LOW,
        "The longest time between two tries to fetch them.",
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        Type.LONG,
        100,
        LOW,
        "The shortest time between two tries to fetch them.",
    ),
    ConfigKey("sasl.oauthbearer.clock.skew.seconds", Type.INT, 30, LOW, "How far clocks may differ."),
    ConfigKey(
        "sasl.oauthbearer.expected.audience", Type.LIST, "", LOW, "The audiences that a token may have; none for all."
    ),
    ConfigKey("sasl.oauthbearer.expected.issuer", Type.STRING, None, LOW, "The issuer that a token must have."),
    ConfigKey(
        "sasl.oauthbearer.header.urlencode",
        Type.BOOLEAN,
        "false",
        LOW,
        "Whether id and secret are URL-encoded in the request's header.",
    ),
)
"""The options, in Kafka's order."""
