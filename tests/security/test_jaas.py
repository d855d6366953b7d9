"""sasl.jaas.config and JAAS files: answers of Kafka and Java, recorded; secrets stay out of errors."""

from __future__ import annotations

import pytest

from kcli.security.jaas import InvalidJaasConfig, login_module, parse_jaas_file
from tests.security import jaas_cases, oracle
from tests.security.jaas_cases import PLAIN


def test_answers_of_kafka() -> None:
    read = 0
    for question, answer in oracle.recorded("jaas"):
        assert jaas_cases.answers(question) == jaas_cases.without_secrets(answer), question
        read += not isinstance(answer, str)
    assert read > 200


def test_answers_of_java_about_files() -> None:
    read = 0
    for question, answer in oracle.recorded("jaas_files"):
        found = jaas_cases.file_answers(question)
        assert found == (None if isinstance(answer, str) else answer), (question, answer)
        read += bool(found)
    assert read > 100


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


FILE = "KafkaServer {\n  A required\n"
WRONG_FILES = {
    FILE + '  password="hunter2"': "expected the name of an option at the end of the file",
    FILE + '  password "hunter2";\n};': "line 3: expected =",
    FILE + "  password='hunter2';\n};": "line 3: expected the value of an option",
    FILE + '  password="${hunter2}";\n};': "line 3: a value has ${...}, a system property of Java, which is not there",
    FILE + "  a=b;\r\n} hunter2": "line 4: expected ;",
    "\rKafkaServer {\r\nA hunter2;\n};": "line 3: the control flag is not required, requisite, sufficient or optional",
    FILE + ";\n};\nKafkaServer {};": "line 5: the section of this name is there twice",
    "hunter2 hunter2": "line 1: expected {",
}


@pytest.mark.parametrize("text", WRONG_FILES)
def test_what_is_wrong_with_a_file(text: str) -> None:
    with pytest.raises(InvalidJaasConfig) as raised:
        parse_jaas_file(text)
    assert str(raised.value) == WRONG_FILES[text]
