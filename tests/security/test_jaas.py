"""sasl.jaas.config: Kafka's answers, recorded; secrets stay out of errors."""

from __future__ import annotations

import pytest

from kcli.security.jaas import InvalidJaasConfig, login_module
from tests.security import jaas_cases, oracle
from tests.security.jaas_cases import PLAIN


def test_answers_of_kafka() -> None:
    read = 0
    for question, answer in oracle.recorded("jaas"):
        assert jaas_cases.answers(question) == jaas_cases.without_secrets(answer), question
        read += not isinstance(answer, str)
    assert read > 200


def test_one_login_module() -> None:
    module = login_module(f'{PLAIN} required username="admin" user_al="s,=; " ;')
    assert (module.name, module.flag) == (PLAIN, "required")
    assert module.options == {"username": "admin", "user_al": "s,=; "}
    with pytest.raises(InvalidJaasConfig, match="2 login modules"):
        login_module("A required; B optional;")
    with pytest.raises(InvalidJaasConfig, match="LdapLoginModule is not allowed"):
        login_module("com.sun.security.auth.module.LdapLoginModule required;")


def test_no_secret_in_an_error_or_a_repr() -> None:
    secret = "hunter2"
    assert secret not in repr(login_module(f'{PLAIN} required password="{secret}";'))
    for text in (f"{PLAIN} {secret};", f"{PLAIN} required a=b {secret};", f"{PLAIN} required {secret}", secret):
        with pytest.raises(InvalidJaasConfig) as raised:
            login_module(text)
        assert secret not in str(raised.value)
