"""Secrets that are recognised by their form: one pattern per kind.

Each secret contains a run of letters, digits, `-` and `_`; its pattern is tried where such a
run begins. Most begin with fixed letters. One alternation of all patterns fails fast, because
`re` looks at the first character of an alternative before it tries it. So the patterns have
no groups, and the kind is looked up after a match.
"""

import re
from collections.abc import Iterable
from functools import cache
from typing import Final, TypeAlias

Span: TypeAlias = tuple[int, int, str]
"""Start, end and kind of a secret."""

_WORD_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_SHADOW = bytes(0x61 if byte in _WORD_BYTES else 0x20 for byte in range(256))


class ScanText:
    """A text prepared for scanning: its bytes and two transformed copies.

    Searching bytes is several times as fast as searching characters, and all patterns are
    ASCII. The copies have the same length, so an index is valid in all three.
    """

    __slots__ = ("data", "lower", "shape")

    def __init__(self, text: str | bytes) -> None:
        self.data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        self.lower = self.data.lower()
        self.shape = self.data.translate(_SHADOW)
        """`a` for every letter, digit, `-` and `_`; a space for every other byte."""

    def word_around(self, place: int, most: int) -> tuple[int, int]:
        """Return the start and end of the word at `place`, within `most` bytes of it."""
        start = self.shape.rfind(b" ", max(0, place - most), place) + 1
        end = self.shape.find(b" ", place, place + most)
        if not start and place > most:
            start = place - most
        return start, end if end >= 0 else min(len(self.data), place + most)


MIN_RUN: Final = 18
"""Length of the shortest run that can be a secret."""

_END = r"(?![A-Za-z0-9])"

PLAIN: Final[dict[str, str]] = {
    # Models
    "anthropic-key": r"sk-ant-[\w-]{16,}",
    "openrouter-key": r"sk-or-[\w-]{20,}",
    "langfuse-key": r"sk-lf-[\w-]{20,}",
    "openai-key": r"sk-(?:proj|svcacct|admin|service|None)-[\w-]{16,}|sess-[A-Za-z0-9]{40,}",
    "api-key": r"sk-[A-Za-z0-9]{20,}",
    "google-api-key": rf"AIza[\w-]{{35}}{_END}",
    "google-oauth-secret": r"GOCSPX-[\w-]{20,}",
    "groq-key": r"gsk_[A-Za-z0-9]{40,}",
    "xai-key": r"xai-[A-Za-z0-9]{40,}",
    "huggingface-token": r"(?:hf|api_org)_[A-Za-z0-9]{30,}",
    "replicate-token": r"r8_[A-Za-z0-9]{30,}",
    "perplexity-key": r"pplx-[A-Za-z0-9]{32,}",
    "fireworks-key": r"fw_[A-Za-z0-9]{20,}",
    "cerebras-key": r"csk-[A-Za-z0-9]{30,}",
    "nvidia-key": r"nvapi-[\w-]{40,}",
    "together-key": r"tgp_v1_[\w-]{30,}",
    "pinecone-key": r"pcsk_[A-Za-z0-9_]{30,}",
    "tavily-key": r"tvly-[A-Za-z0-9-]{20,}",
    "langsmith-key": r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{8,}",
    "elevenlabs-key": rf"sk_[a-f0-9]{{48}}{_END}",
    "firecrawl-key": rf"fc-(?<![-_]fc-)[a-f0-9]{{32}}{_END}",
    "jina-key": r"jina_[\w-]{40,}",
    "wandb-key": r"wandb_v1_[\w-]{40,}",
    "e2b-key": rf"e2b_[a-f0-9]{{40}}{_END}",
    # Clouds
    "aws-access-key": rf"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}{_END}",
    "aws-bedrock-key": r"(?:ABSK[A-Za-z0-9+/]{100,}|bedrock-api-key-[A-Za-z0-9+/]{60,})={0,2}",
    "azure-devops-token": rf"[A-Za-z0-9]{{76}}AZDO[A-Za-z0-9]{{4}}{_END}",
    "digitalocean-token": rf"do[opr]_v1_[a-f0-9]{{64}}{_END}",
    "cloudflare-token": r"cf(?:k|ut|at)_[A-Za-z0-9]{40,}",
    "heroku-key": r"HRKU-[\w-]{30,}",
    "alibaba-key": rf"LTAI[A-Za-z0-9]{{16,20}}{_END}",
    "fly-token": r"(?:fo1_[\w-]{40,}|fm[12][ar]?_[A-Za-z0-9+/]{80,}={0,2})",
    "netlify-token": r"nf[a-z]_[A-Za-z0-9]{36,}",
    "vercel-token": r"vc[a-z]_[A-Za-z0-9]{40,}",
    "render-key": r"rnd_[A-Za-z0-9]{24,}",
    "supabase-key": r"(?:sbp_[a-f0-9]{40,}|sb_secret_[\w-]{20,})",
    "neon-key": r"napi_[a-z0-9]{40,}",
    "planetscale-token": r"pscale_(?:tkn|oauth|pw)_[\w.=-]{30,}",
    "databricks-token": rf"dapi[a-f0-9]{{32}}(?:-\d)?{_END}",
    # Code and packages
    "github-token": r"(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})",
    "gitlab-token": r"(?:gl(?:pat|dt|rt|rtr|ptt|cbt|ft|soat|oas|agent|imt|ffct)-|GR1348941)"
    r"[\w-]{20,}(?:\.[\w-]+){0,2}",
    "bitbucket-token": r"AT(?:BB|CTT3)[\w=-]{20,}",
    "npm-token": rf"npm_[A-Za-z0-9]{{36}}{_END}",
    "pypi-token": r"pypi-AgE[\w-]{40,}",
    "rubygems-key": rf"rubygems_[a-f0-9]{{48}}{_END}",
    "crates-token": rf"cio[A-Za-z0-9]{{32}}{_END}",
    "nuget-key": rf"oy2[a-z0-9]{{43}}{_END}",
    "clojars-token": r"CLOJARS_[a-z0-9]{60}",
    "jfrog-key": rf"AKCp[A-Za-z0-9]{{60,70}}{_END}",
    "docker-token": r"dckr_[po]at_[\w-]{20,}",
    "circleci-token": r"CCIPAT_[A-Za-z0-9]{22}_[a-f0-9]{40}",
    "buildkite-token": rf"bk[a-z]{{2}}_[a-f0-9]{{40}}{_END}",
    "sourcegraph-token": r"sgp_(?:[A-Za-z0-9]+_)?[a-f0-9]{40}",
    "sonar-token": rf"sq[pua]_[a-f0-9]{{40}}{_END}",
    "pulumi-token": rf"pul-[a-f0-9]{{40}}{_END}",
    "age-key": r"AGE-SECRET-KEY-1[A-Z0-9]{50,}",
    "onepassword-token": r"ops_eyJ[A-Za-z0-9+/]{100,}={0,2}",
    "tailscale-key": r"tskey-[a-z]+-[A-Za-z0-9]+-[A-Za-z0-9]{20,}",
    # Services
    "slack-token": r"(?:xox[abceoprsd]-[A-Za-z0-9-]{16,}|xapp-\d-[A-Za-z0-9-]{20,})",
    "discord-token": r"[MNO][A-Za-z0-9_-]{23,27}\.[\w-]{6,7}\.[\w-]{27,}",
    "stripe-key": r"(?:[sr]k_(?:live|test|prod)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{30,}=?)",
    "twilio-key": rf"SK(?<![-_]SK)[a-f0-9]{{32}}{_END}",
    "mailgun-key": rf"key-(?<![-_]key-)[a-f0-9]{{32}}{_END}",
    "mailchimp-key": rf"[a-f0-9]{{32}}-us\d{{1,2}}{_END}",
    "brevo-key": r"xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}",
    "resend-key": r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}",
    "linear-key": r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}",
    "notion-token": rf"(?:ntn_[A-Za-z0-9]{{40,}}|secret_[A-Za-z0-9]{{43}}{_END})",
    "figma-token": r"fig[a-z]_[\w-]{30,}",
    "atlassian-token": r"AT(?:A|S)TT3[\w=-]{60,}",
    "hubspot-token": r"pat-(?:na|eu|ap)\d-[a-f0-9]{8}-[a-f0-9-]{27}",
    "shopify-token": rf"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{{32}}{_END}",
    "facebook-token": r"EAA[A-Za-z0-9]{90,}",
    "square-token": r"(?:sq0[a-z]{3}-[\w-]{22,}|EAAA[\w-]{56,})",
    "postman-key": r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}",
    "newrelic-key": r"NR(?:AK|II|JS|BR|RA)-[A-Za-z0-9-]{20,}",
    "sentry-token": r"(?:sntrys_eyJ[\w+/=-]{40,}|sntryu_[a-f0-9]{64})",
    "grafana-token": r"(?:glsa_[A-Za-z0-9]{32}_[a-fA-F0-9]{8}|glc_[A-Za-z0-9+/]{32,}={0,2})",
    "contentful-token": r"CFPAT-[\w-]{40,}",
    "plaid-token": r"access-(?:sandbox|development|production)-[a-f0-9]{8}-[a-f0-9-]{27}",
    "adafruit-key": rf"aio_[A-Za-z0-9]{{28}}{_END}",
    "jwt": r"eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*){0,3}",
}
"""Patterns by kind, for secrets with a fixed prefix; the first match wins."""

BEHIND: Final[dict[str, str]] = {
    "google-oauth-token": r"(?<=ya29\.)[\w-]{18,}(?:\.[\w-]+)?",
    "google-refresh-token": r"(?<=1//)0[\w-]{30,}",
    "cloudflare-origin-key": r"(?<=v1\.0-)[a-f0-9]{24}-[a-f0-9]{100,}",
    "terraform-token": r"(?<=\.atlasv1\.)[\w-]{60,}",
    "vault-token": r"(?<=hv[sbr]\.)[\w-]{24,}",
    "doppler-token": r"(?<=dp\.[a-z]{2}\.)(?:[a-z0-9_-]+\.)?[A-Za-z0-9]{40,}",
    "telegram-token": rf"(?<=\d{{8}}:)AA[\w-]{{32,33}}{_END}",
    "sendgrid-key": r"(?<=SG\.)[\w-]{18,32}\.[\w-]{32,}",
    "airtable-token": rf"(?<=pat[A-Za-z0-9]{{14}}\.)[a-f0-9]{{64}}{_END}",
    "asana-token": rf"(?<=\d/\d{{16}}:)[a-f0-9]{{32}}{_END}",
    "dynatrace-token": r"(?<=dt0[a-z]\d{2}\.)[A-Z0-9]{24}\.[A-Z0-9]{64}",
    "dropbox-token": r"(?<=sl\.)(?:u\.)?[\w-]{60,}",
    "twitch-token": rf"(?<=oauth:)[a-z0-9]{{30}}{_END}",
}
"""Patterns by kind, for secrets after a fixed prefix that ends with `.`, `:`, `/` or `-`.

The prefix is not redacted.
"""

BOUNDARY: Final = (
    rb"(?>(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4}))"
)
"""No letter or digit precedes a secret, unless it ends an escape sequence."""


def _join_alternatives(patterns: Iterable[str]) -> str:
    return "(?:" + "|".join(patterns) + ")"


@cache
def _compile_patterns() -> tuple[re.Pattern[bytes], dict[str, re.Pattern[bytes]]]:
    """Compile all patterns together, and each one alone, on first use."""
    behind = "(?<=[.:/-])" + _join_alternatives(BEHIND.values())
    together = BOUNDARY + _join_alternatives([*PLAIN.values(), behind]).encode()
    each = {kind: re.compile(how.encode(), re.ASCII) for kind, how in {**PLAIN, **BEHIND}.items()}
    return re.compile(together, re.ASCII), each


_PROSE = re.compile(rb"[a-z_-]+[A-Z_-]*")
"""Only letters: a placeholder such as `sk-ant-your-key-goes-here` or `hf_XXXXXXXX`."""


def match_token(data: bytes, place: int) -> Span | None:
    """Return the secret that begins at `place`, or None."""
    together, each = _compile_patterns()
    found = together.match(data, place)
    if found is None or _PROSE.fullmatch(found[0]):
        return None
    kind = next(kind for kind, how in each.items() if how.match(data, place))
    return place, found.end(), kind
