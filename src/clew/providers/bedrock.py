"""AWS Bedrock, through Converse.

botocore signs the requests, finds the credentials where AWS keeps them, and reads the event
streams; everything else is Clew's own transport.
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
from clew.core.errors import ConfigError, StreamBroken
from clew.providers.adapter import Adapter, AdapterOptions, AuthOptions
from clew.providers.eventstream import EventStream, import_botocore
from clew.providers.http import post, stream_call
from clew.providers.protocol import Chunk, Request
from clew.providers.wire.converse.block_encoder import EncodedContent
from clew.providers.wire.converse.decode import ConverseDecoder
from clew.providers.wire.converse.encode import encode, encode_count, message_cache
from clew.providers.wire.converse.model_traits import count_tokens_name, find_traits
from clew.providers.wire.message_cache import MessageCache

NAME = "bedrock"
SERVICE = "bedrock"
"""What signatures are made for; the host is called otherwise."""
KEY_VARIABLE = "AWS_BEARER_TOKEN_BEDROCK"

_NO_CREDENTIALS = (
    "No AWS credentials were found. Sign in (aws configure, aws sso login), set"
    f" AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or set {KEY_VARIABLE} to a Bedrock API key."
)
_NO_REGION = "No AWS region is set. Set AWS_REGION to one where Bedrock runs, such as us-east-1."


class Credentials(Protocol):
    """Credentials as botocore has them, be they fixed or renewed from time to time."""

    def get_frozen_credentials(self) -> Any:
        """Return the keys that are valid now; may ask the network for them."""
        ...


class _Counted(msgspec.Struct, rename="camel"):
    input_tokens: int


class Bedrock(Adapter):
    """Speaks to Bedrock in one region. Credentials are looked for on first use.

    Args:
        region: Where the models run; by default as the AWS tools are set up.
        profile: Whose settings and credentials are used, of those in the AWS files.
        api_key: A Bedrock API key; requests then bear it and are not signed.
        endpoint: The address to speak to instead of the region's own.
        credentials: What to sign with, instead of what botocore finds.
        cache: Set cache marks; by default where the model is known to take them.
        **options: What may be said of any adapter.

    Raises:
        ConfigError: No region is known, or the AWS settings cannot be read.
        MissingExtra: botocore is not installed.
    """

    def __init__(
        self,
        *,
        region: str | None = None,
        profile: str | None = None,
        api_key: str = "",
        endpoint: str | None = None,
        credentials: Credentials | None = None,
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
        """Post the request and yield what the server sends back."""
        body = encode(self.completed(request), self._kept(request), cache=self._cache)
        action = "converse-stream" if self.streaming else "converse"
        await self._prepare()
        answer = stream_call(
            self.transport,
            _path(request.model, action),
            body,
            decoder=partial(ConverseDecoder, NAME),
            framing=partial(EventStream, NAME),
        )
        async with aclosing(answer) as chunks:
            async for chunk in chunks:
                yield chunk

    async def count_tokens(self, request: Request) -> int:
        """Return the tokens of `request` as the model would read them.

        Raises:
            ProviderRejected: Bedrock cannot count for this model.
        """
        body = encode_count(self.completed(request), self._kept(request))
        await self._prepare()
        path = _path(count_tokens_name(request.model), "count-tokens")
        answer = await post(self.transport, path, body)
        try:
            return msgspec.json.decode(answer, type=_Counted).input_tokens
        except msgspec.DecodeError as error:
            raise StreamBroken(
                f"{NAME} did not count the tokens: {error}.", provider=NAME
            ) from error

    def _kept(self, request: Request) -> MessageCache[EncodedContent]:
        return self._fragments[find_traits(request.model).signs]

    async def _prepare(self) -> None:
        if self._signer is not None:
            await self._signer.prepare()


class Signer:
    """Signs requests with the credentials that botocore finds and renews."""

    def __init__(self, region: str, session: Any, credentials: Credentials | None = None) -> None:
        self._region = region
        self._session = session
        self._credentials = credentials
        self._frozen: Any = None
        self._lock = Lock()

    async def prepare(self) -> None:
        """Have credentials that are valid now; to find them may take files and the network.

        Raises:
            ConfigError: There are none, or they could not be read or renewed.
        """
        await anyio.to_thread.run_sync(self._renew, abandon_on_cancel=True)

    def __call__(self, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        """Return the headers that sign a request; `prepare` comes first."""
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
    # botocore knows the older name of the variable alone.
    if place := os.environ.get("AWS_REGION", ""):
        return place
    try:
        return session.get_config_variable("region") or ""
    except import_botocore("exceptions").BotoCoreError as error:
        raise ConfigError(f"The AWS settings cannot be read: {error}.") from error


def _address(region: str) -> str:
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://bedrock-runtime.{region}.{suffix}"


def _path(model: str, action: str) -> str:
    # The colon stays: the HTTP client would send it bare anyhow, and what is signed must be
    # what is sent. The slash of an ARN must not be taken for one of the path.
    return f"model/{quote(model, safe=':')}/{action}"
