"""Random JAAS configurations and files, and kcli's answers about them. A case is a question to SecurityOracle.java:
`text`, and for a file the `names` of sections."""

from __future__ import annotations

import random
import re
from typing import Any

from kcli.security.jaas import InvalidJaasConfig, LoginModule, parse_jaas, parse_jaas_file

Case = dict[str, Any]

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
FIXED = [
    f'{PLAIN} required username="admin" password="a\\"b;=c" user_bob=\'it"s\';',
    f"{PLAIN} REQUIRED username=al-ice_$1.x password=s3cret ;",
    f"{PLAIN} required password=123;",
    f"{PLAIN} required password=a/b;",
    f"{PLAIN} required /* ; */ a=b // c=d\n e=f;",
    f"{PLAIN} required a=b; {PLAIN} optional;",
    f"{PLAIN} required a=b",
    f"{PLAIN} required a;",
    f"{PLAIN} needed a=b;",
    f"{PLAIN} ;",
    f"{PLAIN}",
    "",
    " // nothing",
    "; required;",
    "'' required;",
    f'{PLAIN} required a="\\101\\477\\0\\18\\n\\q";',
    f'{PLAIN} required a="not closed\nb="c";',
    f'{PLAIN} required a="b\\',
    f"{PLAIN} required 5=x -=y a=b;",
    f"{PLAIN} required a=-5;",
    f"{PLAIN} required é=ü \U0001f600=\u20ac;",
    f"{PLAIN} required a=b a=c;",
    "/**/ A requıred;",
    "A required a=b;;",
]
PIECES = [
    *("A", "required", "Optional", "a", "b", "=", "=", "a=b", 'c="d e"', ";", ";", " ", " ", "\n", "\r", "\t", "\x01"),
    *('"', "'", "\\", "\\n", "\\7", "\\07", "\\400", "\\377", "/", "//", "/*", "*/", "*", "-", ".", "1", "-1", "1.2.3"),
    *("x1", "$", "_", "é", "\x85", "\x7f", "\xa0", "\u2028", "\U0001f600", ",", ":", "@", "#", "{", "\0"),
]

NAMES = ["KafkaServer", "sasl.KafkaServer", "a", "b c", ""]
FILES = [
    f'KafkaServer {{\n  {PLAIN} required\n  username="admin"\n  user_bob="it\'s";\n  a.B OPTIONAL;\n}};\na {{ }};',
    f"sasl.KafkaServer {{ {PLAIN} required; }}; KafkaServer {{ {PLAIN} sufficient a*=b* c=d; }};",
    "/* KafkaServer { */ KafkaServer { // }\n A required a=b;\n# c\n};",
    'KafkaServer { A required a="${" b="}${c" d="$x"; };',
    "'KafkaServer' { A required; };",
    "KafkaServer { 'A' required; };",
    "KafkaServer { A required a='b'; };",
    "KafkaServer { A required a=b; }",
    "KafkaServer { A required a=b };",
    "KafkaServer { A required a=1; };",
    "KafkaServer { A required 1=a; };",
    "KafkaServer { A needed; };",
    "KafkaServer { };; a { };",
    "KafkaServer { A required; }; KafkaServer { A required; };",
    "5 { }; '' { }; KafkaServer { A required; };",
    '"b c" { A required a="\\101\\n"; };',
    "KafkaServer",
    "KafkaServer {",
    "KafkaServer = { };",
    "",
    "A required;",
]


def file_case(seed: int) -> Case:
    """Return a case of a JAAS file."""
    text = FILES[seed] if seed < len(FILES) else ""
    chance = random.Random(seed)
    for _ in range(0 if text or seed < len(FILES) else chance.choice([1, 1, 2, 3])):
        entries = case(chance.randint(len(FIXED), 10**9))["text"] if chance.random() < 0.3 else ""
        entries += "".join(
            chance.choices(["A required a=b;\n", f'{PLAIN} optional user_x="y z" c=d;', " ", "\r\n"], k=3)
        )
        text += chance.choice(["KafkaServer {", "sasl.KafkaServer\n{", "a {", '"b c" {', "/**/a {"]) + entries
        text += chance.choice(["};", "};", "}\n;", "}", ";", "// };\n};"])
    return {"ask": "jaas-file", "text": text.replace("\0", ""), "names": NAMES}


def case(seed: int) -> Case:
    if seed < len(FIXED):
        return {"ask": "jaas", "text": FIXED[seed]}
    chance = random.Random(seed)
    if chance.random() < 0.4:
        return {"ask": "jaas", "text": "".join(chance.choices(PIECES, k=chance.randint(1, 20)))}
    text = ""
    for _ in range(chance.choice([1, 1, 2])):
        text += chance.choice(["A ", "a.b.C ", f"{PLAIN} ", '"q"']) + chance.choice(["required ", "SUFFICIENT\t"])
        for _ in range(chance.randint(0, 4)):
            value = "".join(chance.choices(PIECES, k=chance.randint(0, 4)))
            quote = chance.choice(['"', '"', "'", ""])
            text += f"{chance.choice(['username', 'user_x', 'k-1'])}={quote}{value}{quote} "
        text += ";"
    return {"ask": "jaas", "text": text}


def answers(of: Case) -> Any:
    """Return the login modules, or the reason for a refusal."""
    try:
        return _told(parse_jaas(of["text"]))
    except InvalidJaasConfig as refused:
        return str(refused)


def file_answers(of: Case) -> Any:
    """Return the login modules of each section, None for a refusal."""
    try:
        sections = parse_jaas_file(of["text"])
    except InvalidJaasConfig:
        return None
    return {name: _told(found) for name, found in sections.items() if found and name in of["names"]}


def _told(modules: list[LoginModule]) -> list[Any]:
    return [[each.name, f"LoginModuleControlFlag: {each.flag}", dict(each.options)] for each in modules]


def without_secrets(answer: Any) -> Any:
    """Return Kafka's answer in kcli's words: Kafka quotes the text in its reasons, and has no reason for an empty
    name."""
    if not isinstance(answer, str):
        return answer
    if answer == "null":
        return "Login module not specified in JAAS config"
    return re.sub(r" '.*'", "", answer, flags=re.DOTALL)
