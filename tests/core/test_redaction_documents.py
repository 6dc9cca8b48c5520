"""Secrets that only the document around them shows."""

import json
from time import process_time

import pytest

from clew.core.redaction import redact

pytestmark = pytest.mark.req("LOG-2")

VALUE = "bm90LWEtcGxhY2Vob2xkZXI="
MARK = "[redacted:kubernetes-secret]"
SECRETS = f"""apiVersion: v1
items:
- apiVersion: v1
  data:
    anything: {VALUE}
    "quoted": '{VALUE}'
    lines: |
      first {VALUE}
      second {VALUE}
    after: {VALUE}
  kind: Secret
  metadata:
    name: stays
- apiVersion: v1
  data:
    mode: production
  kind: ConfigMap
"""


def test_the_values_of_a_kubernetes_secret_are_redacted_whatever_their_names() -> None:
    shown = redact(SECRETS)

    assert VALUE not in shown
    assert shown.splitlines()[4:9] == [
        f"    anything: {MARK}",
        f"    \"quoted\": '{MARK}'",
        "    lines: |",
        f"      {MARK}",
        f"    after: {MARK}",
    ]
    assert "name: stays" in shown
    assert "mode: production" in shown
    assert redact(shown) == shown


def test_line_numbers_and_json_do_not_hide_a_kubernetes_secret() -> None:
    numbered = "".join(f"{at:6}\t{line}\n" for at, line in enumerate(SECRETS.splitlines(), 1))
    document = {"apiVersion": "v1", "kind": "Secret", "data": {"a": VALUE}, "type": "Opaque"}

    for text in (
        numbered,
        json.dumps(document),
        json.dumps(document, indent=2),
        json.dumps({"output": json.dumps(document)}),
        f"kind: Secret\nstringData:\n  any: {VALUE}",
        f"---\nkind: Secret\ndata:\n  any: {VALUE}\n---\nkind: Pod\n",
    ):
        assert VALUE not in redact(text), text


@pytest.mark.parametrize(
    "text",
    [
        "kind: ConfigMap\ndata:\n  mode: production\n",
        "kind: SecretStore\ndata:\n  mode: production\n",
        "kind: Secret\nmetadata:\n  name: production\n",
        '{"kind": "Secret", "metadata": {"name": "production"}}',
        "kind words about a secret\ndata:\n  mode: production\n",
        '{"kty": "RSA", "n": "' + "a1" * 30 + '", "e": "AQAB"}',
        "Private-Lines: are not here",
        "IDENTIFIED BY the owner",
        "the password 'test' is an example",
        "echo $1$2 $6$x $2b$",
        "ENV PATH /usr/bin",
    ],
)
def test_what_only_resembles_such_a_document_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "text",
    [
        '{{"kty": "RSA", "n": "public", "d": "{0}", "p": "{0}", "dq": "{0}"}}',
        '{{"d": "{0}", "kty": "OKP"}}',
        "PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 2\n{0}\n{0}\nPrivate-MAC: 00",
        "-----BEGIN OpenVPN Static key V1-----\n{0}{0}\n-----END OpenVPN Static key V1-----",
        "root:$6$abcdefgh${0}{0}:19000:0:99999:7:::",
        "user:$apr1$abcdefgh${0}ab",
        "$2b$12${0}{0}abcdefghijklm",
        "$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHQ${0}",
        "CREATE USER a IDENTIFIED BY '{0}'",
        "ALTER USER a WITH PASSWORD '{0}'",
        "requirepass {0}",
        "bindpw {0}",
        "ENV DB_PASSWORD {0}",
        "setx API_KEY {0}",
        "e2b_{1}",
        "wandb_v1_{0}{0}{0}",
        "AKCp{0}{0}{0}abcd",
    ],
)
def test_secrets_of_further_programs_are_redacted(text: str) -> None:
    secret, digits = "q7Rt9Zx2Lm4Nb6Vc8Kp1", "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"
    shown = redact(text.format(secret, digits))

    assert secret not in shown
    assert digits not in shown


@pytest.mark.parametrize(
    "text",
    [
        '"kty":',
        "kind: Secret\n",
        "kind: Secret\ndata:\n  a: bcdefgh\n",
        'kind: Secret "data":{',
        "private-lines: 3\n",
        "$6$a$",
        "$argon2id$a=1,",
        "requirepass ",
        "password '",
    ],
)
def test_repeated_signs_cost_linear_time(text: str) -> None:
    def measure(size: int) -> float:
        started = process_time()
        redact(text * (size // len(text)))
        return process_time() - started

    measure(20_000)
    assert measure(200_000) < 12 * max(measure(50_000), 0.005)
