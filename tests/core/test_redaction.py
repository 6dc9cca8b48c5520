"""Secrets do not get past redaction, and nothing else is lost in it.

Every secret here is made up on the spot, from the published form of its kind.
"""

import json
import random
import re
import string
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import clew.core
from clew.core import redaction
from clew.core.redaction import Redactor, StreamRedactor, hide, redact
from tests.rows import each_row

pytestmark = pytest.mark.req("LOG-2")

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
ALNUM = LOWER + UPPER + DIGITS
WORD = ALNUM + "_-"
HEX = DIGITS + "abcdef"
BASE64 = ALNUM + "+/"
CHANCE = random.Random(17)


def some(letters: str, length: int) -> str:
    return "".join(CHANCE.choice(letters) for _ in range(length))


def alnum(length: int) -> str:
    """Letters and digits, as random as a key, but never without a digit."""
    return some(ALNUM, length - 1) + some(DIGITS, 1)


def word(length: int) -> str:
    return some(ALNUM, 1) + some(WORD, length - 3) + some(DIGITS, 1) + some(ALNUM, 1)


def jwt() -> str:
    return f"eyJhbGciOiJIUzI1NiJ9.eyJ{word(60)}.{word(43)}"


def pem(label: str = "RSA PRIVATE KEY", lines: int = 6) -> str:
    body = "\n".join(some(BASE64, 64) for _ in range(lines))
    return f"-----BEGIN {label}-----\n{body}\n{some(BASE64, 30)}==\n-----END {label}-----"


TOKENS: dict[str, Callable[[], str]] = {
    "anthropic-key": lambda: f"sk-ant-api03-{word(93)}AA",
    "openrouter-key": lambda: f"sk-or-v1-{some(HEX, 64)}",
    "langfuse-key": lambda: f"sk-lf-{some(HEX, 8)}-{some(HEX, 4)}-{some(HEX, 12)}",
    "openai-key": lambda: f"sk-proj-{word(74)}T3BlbkFJ{word(74)}",
    "api-key": lambda: f"sk-{some(HEX, 32)}",
    "google-api-key": lambda: f"AIza{word(35)}",
    "google-oauth-secret": lambda: f"GOCSPX-{word(28)}",
    "google-oauth-token": lambda: f"ya29.{word(160)}",
    "google-refresh-token": lambda: f"1//0{word(100)}",
    "groq-key": lambda: f"gsk_{alnum(52)}",
    "xai-key": lambda: f"xai-{alnum(80)}",
    "huggingface-token": lambda: f"hf_{alnum(34)}",
    "replicate-token": lambda: f"r8_{alnum(37)}",
    "perplexity-key": lambda: f"pplx-{alnum(48)}",
    "fireworks-key": lambda: f"fw_{alnum(24)}",
    "cerebras-key": lambda: f"csk-{some(LOWER + DIGITS, 48)}",
    "nvidia-key": lambda: f"nvapi-{word(64)}",
    "together-key": lambda: f"tgp_v1_{word(43)}",
    "pinecone-key": lambda: f"pcsk_{alnum(6)}_{alnum(63)}",
    "tavily-key": lambda: f"tvly-dev-{alnum(32)}",
    "langsmith-key": lambda: f"lsv2_pt_{some(HEX, 32)}_{some(HEX, 10)}",
    "elevenlabs-key": lambda: f"sk_{some(HEX, 48)}",
    "firecrawl-key": lambda: f"fc-{some(HEX, 32)}",
    "jina-key": lambda: f"jina_{some(HEX, 32)}{word(28)}",
    "aws-access-key": lambda: f"{CHANCE.choice(['AKIA', 'ASIA'])}{some(UPPER + '234567', 16)}",
    "aws-session-token": lambda: f"IQoJb3JpZ2luX2Vj{some(BASE64, 400)}==",
    "aws-bedrock-key": lambda: f"ABSKQmVkcm9ja0FQSUtleS{some(BASE64, 128)}=",
    "azure-secret": lambda: f"{alnum(3)}8Q~{some(WORD + '~.', 31)}{some(ALNUM, 3)}",
    "azure-devops-token": lambda: f"{alnum(76)}AZDO{alnum(4)}",
    "digitalocean-token": lambda: f"dop_v1_{some(HEX, 64)}",
    "cloudflare-token": lambda: f"cfut_{alnum(48)}",
    "cloudflare-origin-key": lambda: f"v1.0-{some(HEX, 24)}-{some(HEX, 146)}",
    "heroku-key": lambda: f"HRKU-AA{word(58)}",
    "alibaba-key": lambda: f"LTAI{alnum(20)}",
    "fly-token": lambda: f"fo1_{word(43)}",
    "netlify-token": lambda: f"nfp_{alnum(36)}",
    "vercel-token": lambda: f"vcp_{alnum(56)}",
    "render-key": lambda: f"rnd_{alnum(28)}",
    "supabase-key": lambda: f"sbp_{some(HEX, 40)}",
    "neon-key": lambda: f"napi_{some(LOWER + DIGITS, 64)}",
    "planetscale-token": lambda: f"pscale_tkn_{word(43)}",
    "databricks-token": lambda: f"dapi{some(HEX, 32)}-2",
    "github-token": lambda: f"gh{CHANCE.choice('pousr')}_{alnum(36)}",
    "gitlab-token": lambda: f"glpat-{word(20)}",
    "bitbucket-token": lambda: f"ATBB{alnum(32)}",
    "npm-token": lambda: f"npm_{alnum(36)}",
    "pypi-token": lambda: f"pypi-AgEIcHlwaS5vcmc{word(160)}",
    "rubygems-key": lambda: f"rubygems_{some(HEX, 48)}",
    "crates-token": lambda: f"cio{alnum(32)}",
    "nuget-key": lambda: f"oy2{some(LOWER + DIGITS, 43)}",
    "clojars-token": lambda: f"CLOJARS_{some(LOWER + DIGITS, 60)}",
    "docker-token": lambda: f"dckr_pat_{word(27)}",
    "circleci-token": lambda: f"CCIPAT_{alnum(22)}_{some(HEX, 40)}",
    "buildkite-token": lambda: f"bkua_{some(HEX, 40)}",
    "sourcegraph-token": lambda: f"sgp_{some(HEX, 16)}_{some(HEX, 40)}",
    "sonar-token": lambda: f"squ_{some(HEX, 40)}",
    "terraform-token": lambda: f"{alnum(14)}.atlasv1.{word(67)}",
    "pulumi-token": lambda: f"pul-{some(HEX, 40)}",
    "vault-token": lambda: f"hvs.{word(90)}",
    "doppler-token": lambda: f"dp.pt.{alnum(43)}",
    "age-key": lambda: f"AGE-SECRET-KEY-1{some(UPPER + DIGITS, 58)}",
    "onepassword-token": lambda: f"ops_eyJzaWduSW5BZGRyZXNz{some(BASE64, 300)}=",
    "tailscale-key": lambda: f"tskey-auth-{alnum(12)}-{alnum(32)}",
    "slack-token": lambda: f"xoxb-{some(DIGITS, 12)}-{some(DIGITS, 13)}-{alnum(24)}",
    "slack-webhook": lambda: (
        f"https://hooks.slack.com/services/T{alnum(10)}/B{alnum(10)}/{alnum(24)}"
    ),
    "discord-token": lambda: f"M{alnum(25)}.{word(6)}.{word(38)}",
    "discord-webhook": lambda: f"https://discord.com/api/webhooks/{some(DIGITS, 18)}/{word(68)}",
    "teams-webhook": lambda: (
        f"https://a.webhook.office.com/webhookb2/{some(HEX, 36)}@{some(HEX, 36)}"
    ),
    "telegram-token": lambda: f"{some('123456789', 10)}:AA{word(33)}",
    "stripe-key": lambda: f"{CHANCE.choice('sr')}k_live_{alnum(24)}",
    "twilio-key": lambda: f"SK{some(HEX, 32)}",
    "sendgrid-key": lambda: f"SG.{word(22)}.{word(43)}",
    "mailgun-key": lambda: f"key-{some(HEX, 32)}",
    "mailchimp-key": lambda: f"{some(HEX, 32)}-us14",
    "brevo-key": lambda: f"xkeysib-{some(HEX, 64)}-{alnum(16)}",
    "resend-key": lambda: f"re_{alnum(8)}_{alnum(24)}",
    "linear-key": lambda: f"lin_api_{alnum(40)}",
    "notion-token": lambda: f"ntn_{some(DIGITS, 11)}{alnum(35)}",
    "figma-token": lambda: f"figd_{word(40)}",
    "airtable-token": lambda: f"pat{alnum(14)}.{some(HEX, 64)}",
    "asana-token": lambda: f"2/{some('123456789', 16)}:{some(HEX, 32)}",
    "atlassian-token": lambda: f"ATATT3xFfGF0{word(171)}={some(HEX, 8)}",
    "hubspot-token": lambda: (
        f"pat-na1-{some(HEX, 8)}-{some(HEX, 4)}-{some(HEX, 4)}-4abc-{some(HEX, 12)}"
    ),
    "shopify-token": lambda: f"shpat_{some(HEX, 32)}",
    "square-token": lambda: f"sq0atp-{word(22)}",
    "facebook-token": lambda: f"EAA{alnum(160)}",
    "postman-key": lambda: f"PMAK-{some(HEX, 24)}-{some(HEX, 34)}",
    "newrelic-key": lambda: f"NRAK-{some(UPPER + DIGITS, 27)}",
    "sentry-token": lambda: f"sntryu_{some(HEX, 64)}",
    "grafana-token": lambda: f"glsa_{alnum(32)}_{some(HEX, 8)}",
    "dynatrace-token": lambda: f"dt0c01.{some(UPPER + DIGITS, 24)}.{some(UPPER + DIGITS, 64)}",
    "contentful-token": lambda: f"CFPAT-{word(43)}",
    "plaid-token": lambda: (
        f"access-production-{some(HEX, 8)}-{some(HEX, 4)}-4abc-9def-{some(HEX, 12)}"
    ),
    "dropbox-token": lambda: f"sl.{word(136)}",
    "twitch-token": lambda: f"oauth:{some(LOWER + DIGITS, 30)}",
    "adafruit-key": lambda: f"aio_{alnum(28)}",
    "jwt": jwt,
    "private-key": pem,
}
"""Secrets that are known by their looks."""

PLACES = (
    '"first\\n{secret}\\tlast"',
    "next=%2Fa%3D{secret}",
    r'{{"html": "\u003d{secret}\u0026"}}',
    "The value is {secret} and nothing else.",
    '{{"note": "see {secret} there", "count": 3}}',
    "SOME_SETTING={secret}",
    "https://example.com/a?x={secret}&y=1",
    'client = Client("{secret}", timeout=30)',
    "log: sent ({secret}), took 3 ms\n",
)

ALONE = {"mailgun-key", "firecrawl-key", "twilio-key"}
"""Kinds that are too plain to be told inside a longer word: `cache-key-d41d8cd98f00b204…`."""


@dataclass(frozen=True)
class Line:
    """A text with a secret that only the rest of the text gives away."""

    kind: str
    text: str
    secret: str


def line(kind: str, text: str, secret: str) -> Line:
    return Line(kind, text.replace("SECRET", secret), secret)


def pw() -> str:
    """A password as people choose them."""
    return f"{some(LOWER, 5)}{some(DIGITS, 2)}{some('!#+.', 1)}{some(LOWER, 3)}"


NAMED = [
    line("password", "password = 'SECRET'", pw()),
    line("password", '{"user": "bob", "password": "SECRET"}', "correct horse battery"),
    line("password", "  db_password: SECRET\n", pw()),
    line("password", "PGPASSWORD=SECRET psql -h db", some(LOWER, 9)),
    line("password", "export SMTP_PASS=SECRET", some(LOWER, 9)),
    line("password", "ftp --password SECRET host", pw()),
    line("password", "machine api.example.com login bob password SECRET", pw()),
    line("password", "machine h\n  login bob\n  password SECRET\n", pw()),
    line("password", "Server=db;User Id=sa;Password=SECRET;Encrypt=true", some(LOWER, 9)),
    line("password", "<password>SECRET</password>", some(LOWER, 9)),
    line("password", '<input type="password" value="SECRET">', some(LOWER, 9)),
    line("password", "- name: DB_PASSWORD\n  value: SECRET\n", pw()),
    line("password", 'def login(password: str = "SECRET") -> None:', some(LOWER, 9)),
    line("password", '"passwd" => "SECRET",', some(LOWER, 9)),
    line("password", "redis.passphrase=SECRET\n", some(LOWER, 9)),
    line("password", '"{\\"password\\": \\"SECRET\\"}"', f'a\\\\\\"b{some(LOWER, 6)}'),
    line("url-password", "postgres://bob:SECRET@db.example.com/app", pw()),
    line("url-password", "redis://:SECRET@cache:6379/0", some(LOWER, 12)),
    line("url-password", "git clone https://bob:SECRET@git.example.com/x.git", f"a@b{alnum(8)}"),
    line("key", "aws_secret_access_key = SECRET", some(BASE64, 39) + "7"),
    line("key", "AccountName=x;AccountKey=SECRET;EndpointSuffix=y", some(BASE64, 85) + "9=="),
    line("key", "X-Api-Key: SECRET\n", some(HEX, 32)),
    line("key", "curl 'https://api.example.com/v1?api_key=SECRET&q=x'", alnum(12)),
    line("key", 'os.environ["MISTRAL_API_KEY"] = "SECRET"', alnum(32)),
    line("key", 'setenv("COHERE_API_KEY", "SECRET", 1)', alnum(40)),
    line("key", "The API key: SECRET", alnum(20)),
    line("key", "clew --api-key SECRET run", alnum(16)),
    line("key", "    client-key-data: SECRET\n", some(BASE64, 300) + "8=="),
    line("key", "Ocp-Apim-Subscription-Key: SECRET", some(HEX, 31) + "4"),
    line("token", "//registry.npmjs.org/:_authToken=SECRET", f"{some(HEX, 8)}-{some(HEX, 12)}4"),
    line("token", "    token: SECRET\n", alnum(40)),
    line("token", '{"access_token": "SECRET", "expires_in": 3600}', alnum(1500)),
    line("token", "TWILIO_AUTH_TOKEN=SECRET", some(HEX, 32)),
    line("token", 'const token = "SECRET";', alnum(24)),
    line("secret", "client_secret=SECRET&grant_type=code", some(LOWER, 12)),
    line("secret", "DATADOG_KEY=SECRET", some(HEX, 31) + "4"),
    line("secret", '{"auth": "SECRET", "email": "a@b.c"}', some(ALNUM, 29) + "7Q=="),
    line("secret", "auth: SECRET", some(ALNUM, 19) + "77Q=="),
    line("secret", 'webhookSecret: "SECRET"', some(LOWER, 12)),
    line("authorization", "Authorization: Basic SECRET", some(ALNUM, 20) + "=="),
    line(
        "authorization", '"Authorization": "Digest SECRET"', f"username=bob, response={alnum(32)}"
    ),
    line("authorization", "Authorization: token SECRET", alnum(12)),
    line("bearer-token", "Authorization: Bearer SECRET", alnum(40)),
    line(
        "bearer-token", 'curl -H "Authorization: Bearer SECRET" https://x', f"{word(20)}.{word(20)}"
    ),
    line("cookie", "Cookie: SECRET", f"sid={alnum(20)}; theme=dark"),
    line("cookie", "set-cookie: SECRET\r\n", f"session={alnum(20)}; Path=/; HttpOnly"),
    line("cookie", "Cookie: SECRET\n", f'sid="{alnum(20)}"; lang="en"'),
    line("authorization", "Authorization: Digest SECRET", f'username="bob", response="{alnum(9)}"'),
    line("authorization", "'Authorization: ApiKey SECRET'", alnum(12)),
    line("credentials", 'credentials = "SECRET"', f"bob:{alnum(12)}"),
    line("connection-string", 'ConnectionString = "SECRET"', f"Server=db;Uid=sa;Pwd={alnum(9)}"),
    line(
        "signature", "https://x.blob.core.windows.net/c/f?sv=1&sig=SECRET&se=2", f"{alnum(40)}%3D"
    ),
    line("signature", "https://b.s3.amazonaws.com/k?X-Amz-Signature=SECRET", some(HEX, 64)),
    line("private-key", "key: |\n  SECRET", pem("OPENSSH PRIVATE KEY").replace("\n", "\n  ")),
    line("private-key", '{"private_key": "SECRET"}', pem("PRIVATE KEY").replace("\n", "\\n")),
    line("private-key", "cut off:\nSECRET", pem().rpartition("\n")[0]),
    line("private-key", "SECRET\n", pem("PGP PRIVATE KEY BLOCK")),
]

IN_OUTPUT = [
    line("password", "config.yml:1:password: SECRET", pw()),
    line("password", "config.yml-12-password: SECRET", pw()),
    line("password", "config.yml:password: SECRET", pw()),
    line("password", "12:  password: SECRET", pw()),
    line("password", "src/a.env:3:DB_PASSWORD=SECRET", some(LOWER, 9)),
    line("password", "src/a.env-3-DB_PASSWORD=SECRET", some(LOWER, 9)),
    line("password", 'a.json:3:    "password": "SECRET",', some(LOWER, 9)),
    line("password", ".netrc:1:machine h login bob password SECRET", some(LOWER, 9)),
    line("password", "machine h\nlogin bob\npassword SECRET\n", some(LOWER, 9)),
    line("password", "+password: SECRET", pw()),
    line("password", "-  password: SECRET", pw()),
    line("password", "+DB_PASSWORD=SECRET", some(LOWER, 9)),
    line("password", '-    "password": "SECRET",', some(LOWER, 9)),
    line("password", "> DB_PASSWORD=SECRET", some(LOWER, 9)),
    line("password", "+ DB_PASSWORD=SECRET ./run", some(LOWER, 9)),
    line("password", "+ mysqldump --password=SECRET app", some(LOWER, 9)),
    line("password", "mysql -uroot -P3306 -pSECRET app", some(LOWER, 9)),
    line("password", "sshpass -p SECRET ssh host", some(LOWER, 9)),
    line("password", "docker login -u bob -p SECRET", some(LOWER, 9)),
    line("password", "redis-cli -h x -a SECRET ping", some(LOWER, 9)),
    line("password", "curl -s -u bob:SECRET https://x", some(LOWER, 9)),
    line("password", "db.example.com:5432:app:bob:SECRET", some(LOWER, 9)),
    line("password", 'declare -x DB_PASSWORD="SECRET"', some(LOWER, 9)),
    line("password", "setenv DB_PASSWORD SECRET", some(LOWER, 9)),
    line("password", "set -gx DB_PASSWORD SECRET", some(LOWER, 9)),
    line("password", "passwords:\n  - SECRET\n  - admin\n", pw()),
    line("password", 'passwords:\n  - admin\n  - "SECRET"\n', some(LOWER, 9)),
    line("password", "- DB_PASSWORD=SECRET\n", some(LOWER, 9)),
    line("password", "password: |\n  SECRET\n", some(LOWER, 9)),
    line("password", "password: &pw SECRET", pw()),
    line("password", "| password | SECRET |", f"{alnum(12)}7a8"),
    line("password", "user%3Dbob%26password%3DSECRET%26x%3D1", pw().replace("#", "!")),
    line("url-token", "https://SECRET@git.example.com/a.git", f"{alnum(24)}"),
    line("key", "* h2h3 [x-api-key: SECRET]", f"{alnum(12)}7a8"),
    line("key", "> X-Api-Key: SECRET\r\n", some(HEX, 32)),
    line("authorization", "> Authorization: Basic SECRET", some(ALNUM, 20) + "=="),
    line("bearer-token", "* [HTTP/2] [1] [authorization: Bearer SECRET]", alnum(40)),
    line("cookie", "< Set-Cookie: SECRET\r\n", f"sid={some(LOWER, 12)}; Path=/"),
]
"""Secrets in the output of grep, diff, curl, shells, and in YAML."""

NESTED = [
    json.dumps(json.dumps({"user": "bob", "password": "SECRET", "n": 1})),
    json.dumps({"body": json.dumps({"inner": json.dumps({"api_key": "SECRET"})})}),
    json.dumps(json.dumps(json.dumps(json.dumps({"client_secret": "SECRET"})))),
    repr(json.dumps({"password": "SECRET"})),
    json.dumps({"text": "a.yml:1:password: SECRET\nnext"}),
    json.dumps(json.dumps({"text": "export DB_PASSWORD=SECRET\nnext"})),
]
"""JSON inside JSON."""

ORDINARY = """\
The quick brown fox jumps over the lazy dog.
Please reset your password within 24 hours.
Your password must have at least 12 characters, one digit and one sign.
Forgot password? Enter your email address and we will send you a link.
The token count of this prompt is 15,232, and max_tokens is 4096.
{"usage": {"input_tokens": 1234, "output_tokens": 56, "total_tokens": 1290}}
{"max_tokens": 4096, "token_count": 12, "stop_token": "<|endoftext|>", "eos_token": "</s>"}
tokenizer = AutoTokenizer.from_pretrained("gpt2-xl-1558M-instruct-v2")
The secretary kept the secret of the Secret Garden.
password_hint: the name of your first pet, born in 2007
def check_password(password: str, hashed: bytes) -> bool:
    password: str
    token: Token | None = None
    api_key: str = field(default="", repr=False)
api_key = os.environ["OPENAI_API_KEY"]
api_key=settings.api_key2, token=token1,
password=self.password
token=
token = "https://oauth2.example.com/token2"
password = f"{prefix}-{name}2"
auth: basic-auth-plugin-for-version-2
token = await self.get_token(user_id=42)
secret = secrets.token_hex(32)
password = getpass.getpass("Password: ")
const token = req.headers.authorization?.split(" ")[1];
apiKey: process.env.OPENAI_API_KEY_2,
PASSWORD=${DB_PASSWORD:-changeme}
export API_KEY="$OTHER_KEY_2"
OPENAI_API_KEY=your-api-key-here
ANTHROPIC_API_KEY=<your key>
export ANTHROPIC_API_KEY=sk-ant-...
commands = ["cd ~ && pwd", "ls -la ~/Desktop2/3d"]
ANTHROPIC_API_KEY=sk-ant-your-key-goes-here
--password-file /run/secrets/db_password --token-count 5
password_file: /run/secrets/db_password1
"password": "Enter your password"
"password": ""
"password": null, "token": true, "secret": 42, "passcode": 123456
actions/cache: deps-key-d41d8cd98f00b204e9800998ecf8427e
"token_type": "bearer", "expires_in": 3600, "scope": "read write"
"type": "string", "description": "The API key to use. Keep it secret."
fetch(url, { credentials: "include", cache: "no-store" })
Authorization: Basic authentication is required for this page
Use a bearer token; bearer authentication-with-certificates works too.
Access-Control-Allow-Credentials: true
commit 3f2a9c81d7e64b05a1c2d3e4f5061728394a5b6c
index 83db48f..bf2a1c7 100644
Merge 9fceb02d0ae598e95dc970b74767f19372d61af8 into main
request id 7c9e6679-7425-40de-944b-e07fc1f90ae7 took 12 ms
session_id=7c9e667974254 0de944be07fc1f90ae7
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  model.bin
d41d8cd98f00b204e9800998ecf8427e  empty.txt
"integrity": "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBw==
checksum = "b5c5e1d0a7f3c2b4e6d8f0a1b3c5d7e9f1a3b5c7d9e1f3a5b7c9d1e3f5a7b9c1"
--hash=sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824
ETag: "33a64df551425fcc55e4d42a148795d9f25f89d4"
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtQ3x0k1Z2c4v5b6n7m8l9k0j1h2g3f4d5s6a7p8o9i bob@example.com
-----BEGIN CERTIFICATE-----
The file begins with -----BEGIN RSA PRIVATE KEY----- and ends with -----END RSA PRIVATE KEY-----.
public_key = "04a34b99f22c790c4e36b2b3c2c35a36db06226e41c692fc82b8b56ac1c540c5bd"
primary_key=True, foreign_key="users.id", cache_key="user:1234:profile:v2"
idempotency_key: 7c9e6679-7425-40de-944b-e07fc1f90ae7
sorted(items, key=lambda item: item.created_at)
{"key": "ArrowDown", "code": "ArrowDown", "keyCode": 40}
for key, value in sorted(mapping.items()): print(f"{key}={value}")
nextPageToken: CAUQAA12345abcdef, next_token=abc123def456
arn:aws:secretsmanager:eu-west-1:123456789012:secret:app/prod-a1b2c3
https://user:password@example.com is the form of an address with a password.
https://example.com:8080/path@version/token?size=large&page=2
ssh://git@github.com:22/org/repo.git
pip install 'package[extra]==1.2.3' --index-url https://pypi.org/simple
npm_config_cache=/tmp/cache npm run build --workspace packages/core
kubectl get secret my-app-secret-2 -o yaml
secretName: my-app-secret-2
secretKeyRef: {name: my-app-secret-2, key: password}
existingSecret: my-app-tls-2
hf_hub_download(repo_id="org/model", filename="config.json")
class TokenBucket: rate: int; tokens: float = 0.0
assert tokens == ["select", "whitespace", "identifier", "semicolon"]
Token(kind="identifier", token="whitespace", line=12)
task-sk-learn-contrib-something-rather-long
The cookie banner: accept all cookies, or only the necessary ones.
Cookies: chocolate chip, oatmeal, 2 dozen
password == confirm_password
if (password !== repeated) throw new Error("passwords differ");
-e GITHUB_TOKEN -e HOME
auth: {type: oauth2, flow: implicit}
author: Jane Doe, authority: example.com, authentication: none
key: value
monkey=banana, turkey=dinner, keyboard: qwerty2000
Pass 3 of 5 passed: 120 passed, 0 failed
compass: 42, passenger_count: 3, bypass=true
[redacted:github-token] was here: see the log
docker run -u 1000:1000 -p 8080:8080 node
mysql -h db -P 3306 -p app
curl -u "$USER:$PASSWORD" https://example.com
curl -s https://example.com/a:b
| password | the password of the user |
usage: clew [--password PASSWORD] [--token=TOKEN]
https://john@example.com/a
tokens:
passwords:
set -e
"""


def windows(text: str) -> set[str]:
    """The pieces by which a part of a secret would be known."""
    plain = text.replace("\n", "").replace("  ", "")
    return {plain[at : at + 8] for at in range(len(plain) - 7)} or {plain}


def random_part(kind: str, secret: str) -> str:
    """What of a secret must be gone; a fixed beginning may stay."""
    if kind.endswith("-webhook"):
        return secret.rpartition("/")[2]
    return secret.rpartition(".")[2] if "." in secret else secret[-20:]


@each_row("kind", TOKENS)
def test_a_secret_is_known_by_its_looks_wherever_it_stands(kind: str) -> None:
    CHANCE.seed(kind)  # the same secrets in any order of tests
    for place in PLACES if kind in ALONE else (*PLACES, "backup-of-{secret} 2 files"):
        for _ in range(3):
            secret = TOKENS[kind]()
            text = place.format(secret=secret)

            clean = redact(text)

            assert f"[redacted:{kind}]" in clean, text
            assert not [piece for piece in windows(random_part(kind, secret)) if piece in clean]
            assert redact(clean) == clean


@each_row("case", [*NAMED, *IN_OUTPUT])
def test_a_secret_is_known_by_the_name_beside_it(case: Line) -> None:
    clean = redact(case.text)

    assert clean == case.text.replace(case.secret, f"[redacted:{case.kind}]")
    assert redact(clean) == clean


INVISIBLE = {
    "colours": "\x1b[36m",
    "bright colours": "\x1b[38;2;1;2;3m\x1b[1m",
    "a link": "\x1b]8;;https://example.com\x1b\\",
    "colours in JSON": "\\u001b[0m",
    "a zero-width space": "\u200b",
    "a soft hyphen": "\xad",
    "a byte order mark": "\ufeff",
    "overwritten text": "x\b",
    "text overwritten at once": "abc\b\b\b",
}
"""Texts that a terminal does not show."""


@each_row("hidden", INVISIBLE.values())
def test_invisible_characters_hide_no_secret(hidden: str) -> None:
    secret = "Zq8vK2mN7pL4xW9t"
    for text in (
        f"INFO {hidden}password{hidden}={hidden}{secret}{hidden}\n",
        f"{hidden}DB_PASSWORD{hidden}: {secret}\n",
        f"a.yml:3:{hidden}password{hidden}: {secret}\n",
        f"pass{hidden}word: {secret}\n",
        f"curl -u bob{hidden}:{secret}{hidden} https://x",
    ):
        clean = redact(text)

        assert secret not in clean
        assert clean.startswith(text[:11])
        assert redact(clean) == clean


def test_a_secret_with_invisible_characters_is_replaced_with_them() -> None:
    token = TOKENS["anthropic-key"]()
    text = f"first \x1b[1m{token[:20]}\x1b[31m{token[20:]}\x1b[0m last"

    assert redact(text) == "first \x1b[1m[redacted:anthropic-key]\x1b[0m last"
    assert redact("a\x1b[0mhorse 7", extra_values=["ahorse"]) == "[redacted:value] 7"


def test_hidden_secrets_that_are_far_apart_are_all_redacted() -> None:
    case = "\x1b[1mpassword\x1b[0m=Zq8vK2mN7pL4xW9t"
    for between in ("\n" + "x y\n" * 9_000, "x " * 18_000):
        clean = redact(f"{case} {between} {case} {between}")

        assert clean == f"{case} {between} {case} {between}".replace(
            "Zq8vK2mN7pL4xW9t", "[redacted:password]"
        )


@each_row("text", [each for each in ORDINARY.splitlines() if "://" not in each])
def test_coloured_text_without_secrets_is_left_alone(text: str) -> None:
    coloured = re.sub(r"[\w]+", "\x1b[36m\\g<0>\x1b[0m", text)

    assert redact(coloured) is coloured


@pytest.mark.parametrize("text", NESTED)
def test_a_secret_is_known_in_json_inside_json(text: str) -> None:
    secret = alnum(14)

    clean = redact(text.replace("SECRET", secret))

    assert secret not in clean
    assert clean.partition("[redacted:")[0] == text.partition("SECRET")[0]
    if text.startswith(('"', "{")):
        assert isinstance(json.loads(clean), str | dict)


@each_row("text", ORDINARY.splitlines())
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text) is text
    assert redact({"text": text, "lines": [text]}) == {"text": text, "lines": [text]}


PLACEHOLDERS = [
    "test",
    "testing",
    "test123",
    "changeme",
    "change-me",
    "CHANGEME!",
    "change_it",
    "example",
    "example-password",
    "xxx",
    "xxxxxxxx",
    "dummy",
    "fake",
    "foo",
    "bar",
    "placeholder",
    "password",
    "secret",
    "my_password",
    "your-password-here",
    "<password>",
    "${VAR}",
    "$DB_PASSWORD",
    "{{password}}",
    "%PASSWORD%",
    "str",
    "string",
    "String",
    "int",
    "bytes",
    "SecretStr",
    "None",
    "null",
    "undefined",
    "todo",
    "TBD",
    "***",
    "...",
    "redacted",
    "hidden",
    "required",
    "REPLACE_ME",
    "replace-me",
    "replace_with_your_password",
    "insert-your-password-here",
    "ENTER_PASSWORD_HERE",
    "YOUR_API_KEY_HERE",
    "<your-key>",
    "xxxx",
]
REAL = [
    "test-4Horse!9",
    "changeme2026!Prod",
    "examplehorse-77x",
    "hunter2",
    "Tr0ub4dor&3",
    "correct-horse-battery",
    "string4theory!",
    "myhorse99",
    "replacement-77x",
    "insert-coin-9here",
    "enter-the-dragon7",
    "xxx9horse",
    "fakehorse7!",
    "9f8e7d6c5b4a",
    "password2026!",
    "secretHorse!",
    "admin",
    "root",
]


@each_row("value", PLACEHOLDERS)
def test_a_placeholder_is_no_secret(value: str) -> None:
    for text in (f"password = '{value}'", f'{{"password": "{value}"}}', f"password: {value}\n"):
        assert redact(text) is text
    assert redact({"password": value}) == {"password": value}


@each_row("value", REAL)
def test_a_real_password_is_redacted_although_it_begins_like_a_placeholder(value: str) -> None:
    for text in (f"password = '{value}'", f'{{"password": "{value}"}}'):
        assert redact(text) == text.replace(value, "[redacted:password]")
    assert redact({"password": value}) == {"password": "[redacted:password]"}


@given(
    st.lists(st.sampled_from([*(case.text for case in NAMED), *ORDINARY.splitlines(), "é¤", "\n"]))
)
def test_the_originals_behind_all_marks_give_the_original_text(pieces: list[str]) -> None:
    text = "\n".join(pieces)

    hidden = hide(text)

    restored, done = "", 0
    for mark in hidden.hidden:
        assert hidden.text[mark.start : mark.end].startswith("[redacted:")
        restored += hidden.text[done : mark.start] + mark.original
        done = mark.end
    assert restored + hidden.text[done:] == text
    assert hidden.text == redact(text)


def test_the_corpus_is_large() -> None:
    kinds = TOKENS.keys() | {case.kind for case in NAMED}
    ordinary = ORDINARY.splitlines()

    print(f"{len(kinds)} kinds of secrets, {len(NAMED)} named, {len(ordinary)} ordinary lines")  # noqa: T201
    assert len(kinds) >= 60
    assert len(ordinary) >= 60


@each_row(
    "name",
    [
        *("api_key", "apiKey", "x-api-key", "ANTHROPIC_API_KEY", "client_secret", "token"),
        *("accessToken", "refresh_token", "AWS_SECRET_ACCESS_KEY", "private_key", "Set-Cookie"),
        *("authorization", "xApiKey", "signing_key", "session_token", "dbPassword", "DB_PW"),
        *("connectionString", "connection_string", "API_KEY_PROD", "secretKey2", "userpassword"),
    ],
)
def test_a_field_is_known_by_its_key(name: str) -> None:
    value = "vQ83kPz1Lm4Xw72s"

    clean = redact({name: value, "other": value, "list": [{name: [value, value]}]})

    assert str(clean[name]).startswith("[redacted:")
    assert clean["other"] == value
    assert clean["list"] == [{name: [clean[name], clean[name]]}]


@each_row(
    "name",
    [
        *("max_tokens", "token_count", "tokenizer", "secretary", "password_hint", "token_type"),
        *("show_password", "has_token", "get_api_key", "public_key", "primary_key", "next_token"),
        *("session_id", "author", "key", "pass", "monkey", "cookie_name", "secret_name", "x" * 90),
        *("", "42", "tokens", "string", "CACHE_KEY"),
    ],
)
def test_a_field_with_another_key_is_left_alone(name: str) -> None:
    document = {name: "vQ83kPz1Lm4Xw72s"}

    assert redact(document) == document


def test_types_and_structure_stay_as_they_are() -> None:
    document = {
        "password": 1234,
        "token": None,
        "secret": True,
        "api_key": 2.5,
        7: ["a", ("b", "c")],
        "cookies": {"sid": "a8f7d6s5", "n": 3, "deep": [["x9y8z7w6"]]},
        "env": [{"name": "DB_PASSWORD", "value": "hunter"}, {"key": "HOME", "value": "/root"}],
        "schema": {"password": {"type": "string", "description": "At least 8 letters"}},
        "data": b"password=hunter2",
    }

    clean = redact(document)

    assert clean == {
        **document,
        "cookies": {"sid": "[redacted:cookie]", "n": 3, "deep": [["[redacted:cookie]"]]},
        "env": [
            {"name": "DB_PASSWORD", "value": "[redacted:password]"},
            {"key": "HOME", "value": "/root"},
        ],
    }
    assert document["env"] == [
        {"name": "DB_PASSWORD", "value": "hunter"},
        {"key": "HOME", "value": "/root"},
    ]


def test_the_looks_of_a_secret_say_more_than_its_name() -> None:
    secret = TOKENS["github-token"]()

    assert redact({"token": secret}) == {"token": "[redacted:github-token]"}
    assert redact(f"token = '{secret}'") == "token = '[redacted:github-token]'"
    assert redact({"password": f"it is {secret}"}) == {"password": "[redacted:password]"}
    assert redact({"Authorization": "Basic dXNlcjpwYXNz"}) == {
        "Authorization": "Basic [redacted:authorization]"
    }
    assert redact({"Authorization": "Bearer abcDEF123 then"}) == {
        "Authorization": "Bearer [redacted:authorization] then"
    }


def test_the_letter_of_an_escape_is_no_part_of_a_secret() -> None:
    secret = f"w_{alnum(40)}"

    assert redact(f'"one\\nf{secret}"') == '"one\\n[redacted:fireworks-key]"'
    assert redact(f"C:\\\\nf{secret}") == "C:\\\\[redacted:netlify-token]"
    assert redact(f"LIKE '%{TOKENS['aws-access-key']()}%'") == "LIKE '%[redacted:aws-access-key]%'"


@pytest.mark.parametrize(
    "text",
    [
        '["password: ","b7c8d9"]',
        '{"a":"getpass(\\"Password: \\")","b":"x7y8z9"}',
        """{"a":"password = 'x","b":"y' z7"}""",
        '{"password":12345678,"token":-1}',
        '{"a":"' + "x" * 300 + ' Cookie: a=b","c":"d"}',
    ],
)
def test_the_end_of_a_json_string_is_not_mistaken_for_its_beginning(text: str) -> None:
    clean = redact(text)

    assert skeleton(msgspec.json.decode(clean)) == skeleton(msgspec.json.decode(text))


def test_a_secret_in_a_key_is_hidden_and_no_entry_is_lost() -> None:
    first, second = TOKENS["github-token"](), TOKENS["github-token"]()

    clean = redact({first: 1, second: 2})

    assert clean == {"[redacted:github-token]": 1, "[redacted:github-token]'": 2}


def test_callers_may_name_further_keys_and_values() -> None:
    text = 'kundennummer="ab" and KUNDEN_NUMMER: 12ab34cd56 and plain words "p\\"ww" and p"ww'

    clean = redact(
        {"kundenNummer": "a", "text": text},
        extra_keys=["kunden_nummer", "", "--"],
        extra_values=["plain words", 'p"ww', "", "and"],
    )

    assert clean == {
        "kundenNummer": "[redacted:secret]",
        "text": 'kundennummer="[redacted:secret]" and KUNDEN_NUMMER: [redacted:secret]'
        ' and [redacted:value] "[redacted:value]" and [redacted:value]',
    }
    assert Redactor(extra_values=["redacted", "value"]).redact(clean) == clean


def test_a_document_may_be_deeper_than_the_stack() -> None:
    document: object = "password=hunter2"
    for _ in range(5_000):
        document = [document]

    clean = redact(document)

    for _ in range(5_000):
        assert isinstance(clean, list)
        clean = clean[0]
    assert clean == "password=[redacted:password]"


FRAGMENTS = st.sampled_from(
    [
        *(make() for make in TOKENS.values()),
        *(case.text for case in NAMED),
        *ORDINARY.splitlines(),
        *("password", "token", "api_key", "Bearer ", "Cookie:", "-----BEGIN PRIVATE KEY-----"),
        *(": ", "=", '"', "'", '\\"', "\\n", "\n", " ", "-", "_", "://", "@", "%3D", "é", "\ud800"),
    ]
)


@given(st.lists(FRAGMENTS, max_size=12).map("".join))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    clean = redact(text)

    assert redact(clean) == clean


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | FRAGMENTS.map(str),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FRAGMENTS, inner, max_size=3),
    max_leaves=8,
)


def skeleton(value: object) -> object:
    match value:
        case dict():
            return [skeleton(inner) for inner in value.values()]
        case list():
            return [skeleton(inner) for inner in value]
        case _:
            return type(value)


@given(JSON.filter(lambda value: "\\ud800" not in ascii(value)))
def test_documents_keep_their_shape_and_json_stays_json(document: object) -> None:
    clean = redact(document)
    text = msgspec.json.encode(document).decode()

    assert skeleton(clean) == skeleton(document)
    assert redact(clean) == clean
    assert skeleton(msgspec.json.decode(redact(text))) == skeleton(document)


LONG = "".join(f"{line}\n" for line in [*(case.text for case in NAMED), *ORDINARY.splitlines()])


@given(st.lists(st.integers(1, 200), min_size=1, max_size=60))
def test_a_stream_is_redacted_as_the_whole_text_would_be(sizes: list[int]) -> None:
    stream, out, at = StreamRedactor(), "", 0
    text = LONG + TOKENS["github-token"]()

    while at < len(text):
        size = sizes[at % len(sizes)]
        out += stream.feed(text[at : at + size])
        at += size
    out += stream.close()

    assert out == redact(text)


def test_a_stream_gives_whole_lines_at_once_and_holds_back_little() -> None:
    stream = StreamRedactor(extra_values=["hush"])

    assert stream.feed("one hush\ntwo") == "one [redacted:value]\n"
    assert stream.feed(" words " * 20_000) != ""
    assert len(stream.close()) < 5_000
    assert stream.feed("x" * 200_000) == "x" * (200_000 - 4_096)
    assert stream.close() == "x" * 4_096


HOSTILE = {
    "colours": "\x1b[1mpassword\x1b[0m=",
    "titles without an end": "\x1b]0;",
    "escapes": "\\",
    "backspaces": "ab\b\b\b",
    "names": "password=",
    "quoted names": 'password="',
    "backquoted names": "pwd=`",
    "spaced names": "api key ",
    "headers": "authorization: basic ",
    "cookies": "cookie: a=",
    "tags": "<password>",
    "pairs": '"password",',
    "options": "--api-key ",
    "netrc": "login a password ",
    "one word": "key",
    "prefixes": "sk-",
    "tokens in parts": "eyJ_",
    "dotted tokens": "eyJaaaaaaaaaaaaaaaaaaaa.",
    "numbered parts": "sk-1-",
    "addresses": "://a:",
    "signs": "q~sig=bearer ",
    "keys": '-----BEGIN PRIVATE KEY-----"',
    "key lines": "-----BEGIN PRIVATE KEY-----\n",
    "backslashes": 'password="\\',
    "letters": "a",
    "waiting names": "name: password\n",
}


@each_row("unit", HOSTILE.values())
def test_hostile_text_takes_linear_time(unit: str) -> None:
    text = unit * (60_000 // len(unit))
    start = time.process_time()

    redact(text)

    # Quadratic time would be much more; the limit leaves room for a slow machine.
    assert time.process_time() - start < 4


def test_ordinary_text_is_fast() -> None:
    sources = Path(clew.core.__file__).parent.parent.rglob("*.py")
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(sources))
    redact(text[:100])
    start = time.process_time()

    redact(text)

    took = time.process_time() - start
    print(f"{len(text) / took / 1e6:.0f} MB/s of source code")  # noqa: T201
    assert took < len(text) / 1e6


def test_a_schema_whose_type_is_no_word_is_redacted_like_any_document() -> None:
    schema = {"properties": {"type": {"type": "string"}, "token": {"type": ["string", "null"]}}}

    assert redact(schema) == schema


def test_a_key_that_seems_to_continue_in_an_earlier_line_does_not_repeat_the_text() -> None:
    body = "MIIEpAIBAAKCAQEA7bq3" * 3
    text = f"{body}\\n{body}\\n-----END RSA PRIVATE KEY-----\n+-----BEGIN RSA PRIVATE KEY-----\n"

    shown = Redactor().text(text)

    assert len(shown) <= len(text)
    assert redact(shown) == shown


def test_secrets_that_are_far_apart_are_all_redacted() -> None:
    gap = "lorem ipsum dolor\n" * 3_000
    text = gap.join(f"password='corr3ct-h0rse-{number}'\n" for number in range(4))

    shown = Redactor().text(text)

    assert shown == gap.join(["password='[redacted:password]'\n"] * 4)
    assert redact(shown) == shown


def test_a_long_word_far_before_a_secret_stays_whole() -> None:
    word, name = f"xsk-ant-{'a1' * 20}", "password='"
    blanks = " " * (16_385 - len(word) - len(name))
    text = f"{word}{blanks}{name}corr3ct-h0rse'"

    assert redact(text) == text.replace("corr3ct-h0rse", "[redacted:password]")


def test_the_classes_are_loaded_when_they_are_asked_for() -> None:
    assert redaction.Redactor is Redactor
    with pytest.raises(AttributeError, match="no attribute 'Redacter'"):
        getattr(redaction, "Redact" + "er")
