"""AWS Bedrock, through the Converse API.

botocore signs the requests, finds credentials where AWS keeps them, and decodes event streams;
Clew's own transport does the rest.
"""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from threading import Lock
from typing import Any, Protocol, Unpack
from urllib.parse import quote

import anyio.to_thread
import msgspec

from clew.context.reasoning import Echoes, ReasoningReader
from clew.core.errors import ConfigError
from clew.core.text import end_sentence
from clew.providers.adapter import Adapter, AdapterOptions, AuthOptions
from clew.providers.eventstream import EventStream, import_botocore
from clew.providers.protocol import Chunk, Request
from clew.providers.transport import post, stream_call
from clew.providers.wire.converse.block_encoder import EncodedContent
from clew.providers.wire.converse.decode import converse_decoder
from clew.providers.wire.converse.encode import encode, encode_count, message_cache
from clew.providers.wire.converse.model_traits import count_tokens_name, find_traits
from clew.providers.wire.message_cache import MessageCache

NAME = "bedrock"
SERVICE = "bedrock"
"""The service name in signatures, which differs from the host name."""
KEY_VARIABLE = "AWS_BEARER_TOKEN_BEDROCK"

_NO_CREDENTIALS = (
    "No AWS credentials were found. Sign in (aws configure, aws sso login), set"
    f" AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or set {KEY_VARIABLE} to a Bedrock API key."
)
_NO_REGION = "No AWS region is set. Set AWS_REGION to one where Bedrock runs, such as us-east-1."


class AwsCredentials(Protocol):
    """Credentials of botocore, fixed or refreshable."""

    def get_frozen_credentials(self) -> Any:
        """Return the current keys; may use the network."""
        ...


class _Counted(msgspec.Struct, rename="camel"):
    input_tokens: int


class Bedrock(Adapter):
    """Connects to Bedrock in one region. The first call looks for credentials.

    Args:
        region: The region of the models; by default that of the AWS configuration.
        profile: The profile of the AWS configuration files.
        api_key: A Bedrock API key; requests then use it instead of a signature.
        endpoint: An address that replaces the region's own.
        credentials: Credentials that replace those that botocore finds.
        cache: Set cache points; by default for models that support them.
        **options: See `AdapterOptions`.

    Raises:
        ConfigError: No region is configured, or the AWS configuration is invalid.
        MissingExtra: botocore is not installed.
    """

    def __init__(
        self,
        *,
        region: str | None = None,
        profile: str | None = None,
        api_key: str = "",
        endpoint: str | None = None,
        credentials: AwsCredentials | None = None,
        cache: bool | None = None,
        **options: Unpack[AdapterOptions],
    ) -> None:
        if not (api_key.strip() or profile or credentials):
            api_key = os.environ.get(KEY_VARIABLE, "")
        api_key = api_key.strip()
        session = _session(profile)
        place = region or _region(session)
        if not place and not (api_key and endpoint):
            raise ConfigError(_NO_REGION)
        signer = None if api_key else Signer(place, session, credentials)
        access: AuthOptions = {"api_key": api_key, "sign": signer}
        super().__init__(NAME, endpoint or _address(place), access, **options)
        self._signer = signer
        self._cache = cache
        self._fragments = {
            True: message_cache(ReasoningReader(NAME, Echoes.OWN_ISSUED)),
            False: message_cache(ReasoningReader(NAME, Echoes.NEVER)),
        }

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Post the request and yield the response."""
        body = encode(self.complete_request(request), self._find_cache(request), cache=self._cache)
        action = "converse-stream" if self.streaming else "converse"
        await self._prepare()
        answer = stream_call(
            self.transport,
            _path(request.model, action),
            body,
            decoder=partial(converse_decoder, NAME),
            framing=partial(EventStream, NAME),
        )
        async with aclosing(answer) as chunks:
            async for chunk in chunks:
                yield chunk

    async def count_tokens(self, request: Request) -> int:
        """Return how many tokens `request` has for the model.

        Raises:
            ProviderRejected: Bedrock cannot count tokens for this model.
        """
        body = encode_count(self.complete_request(request), self._find_cache(request))
        await self._prepare()
        path = _path(count_tokens_name(request.model), "count-tokens")
        answer = await post(self.transport, path, body)
        return self.decode(answer, _Counted).input_tokens

    def _find_cache(self, request: Request) -> MessageCache[EncodedContent]:
        return self._fragments[find_traits(request.model).signs]

    async def _prepare(self) -> None:
        if self._signer is not None:
            await self._signer.prepare()


class Signer:
    """Signs requests with credentials that botocore finds and refreshes."""

    def __init__(
        self, region: str, session: Any, credentials: AwsCredentials | None = None
    ) -> None:
        self._region = region
        self._session = session
        self._credentials = credentials
        self._frozen: Any = None
        self._lock = Lock()

    async def prepare(self) -> None:
        """Load or refresh the credentials, which may use files and the network.

        Raises:
            ConfigError: There are no credentials, or loading them failed.
        """
        await anyio.to_thread.run_sync(self._renew, abandon_on_cancel=True)

    def __call__(self, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        """Return the headers that sign a request; call `prepare` first."""
        made = import_botocore("awsrequest").AWSRequest("POST", url, dict(headers), body)
        import_botocore("auth").SigV4Auth(self._frozen, SERVICE, self._region).add_auth(made)
        return dict(made.headers.items())

    def _renew(self) -> None:
        with self._lock:
            try:
                if self._credentials is None:
                    self._credentials = self._session.get_credentials()
                found = self._credentials and self._credentials.get_frozen_credentials()
            except import_botocore("exceptions").BotoCoreError as error:
                raise ConfigError(f"{_NO_CREDENTIALS} ({error})") from error
            if not found:
                raise ConfigError(_NO_CREDENTIALS)
            self._frozen = found


def _session(profile: str | None) -> Any:
    return import_botocore("session").Session(profile=profile)


def _region(session: Any) -> str:
    # botocore only knows the older AWS_DEFAULT_REGION.
    if place := os.environ.get("AWS_REGION", ""):
        return place
    try:
        return session.get_config_variable("region") or ""
    except import_botocore("exceptions").BotoCoreError as error:
        raise ConfigError(end_sentence(f"The AWS configuration is invalid: {error}")) from error


def _address(region: str) -> str:
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://bedrock-runtime.{region}.{suffix}"


def _path(model: str, action: str) -> str:
    # The colon stays, because the HTTP client sends it unescaped and the signature must match.
    # The slash of an ARN is escaped, because it is not part of the path.
    return f"model/{quote(model, safe=':')}/{action}"
