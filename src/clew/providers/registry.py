"""The providers by name, their API keys and addresses, and how to create them.

A model is named `family/name`, such as `anthropic/claude-sonnet-4-6`, or by its bare name if that
identifies the family. Creating a provider imports its adapter.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from clew.core.errors import ConfigError, UnknownModel
from clew.files.entry_points import load_installed
from clew.providers.catalogue import SMOLLM2
from clew.providers.profiles import PROFILES, Profile, ollama_address
from clew.providers.protocol import Provider

if TYPE_CHECKING:
    from clew.providers.adapter import AdapterOptions


_WEB_TOOLS = {"webSearch": "web_search", "webFetch": "web_fetch"}


class ProviderSettings(Struct, frozen=True, kw_only=True):
    """The settings from which a family creates its provider."""

    api_key: str = ""
    base_url: str = ""
    timeout: float | None = None
    """Seconds without data before a call fails; None for the default."""
    web_search: bool = False
    """Enable the provider's own web search."""
    web_fetch: bool = False
    options: Mapping[str, Any] = {}
    """Fields of the provider's API for every request."""

    def __repr__(self) -> str:
        return "Settings(…)"

    def common(self) -> "AdapterOptions":
        """Return the options of all HTTP adapters."""
        common: AdapterOptions = {}
        if self.timeout is not None:
            common["idle_timeout"] = self.timeout
        if self.options:
            common["options"] = self.options
        return common


class ProviderFamily(Struct, frozen=True, kw_only=True):
    """One kind of provider, and how to recognize its models."""

    name: str
    make: Callable[[ProviderSettings], Provider]
    key_names: tuple[str, ...] = ()
    """Environment variables of the API key; the first that is set applies."""
    needs_key: bool = True
    address_name: str = ""
    """The environment variable of the address."""
    read_address: Callable[[str], str] = str
    """Converts the value of that variable into a base URL."""
    default_model: str = ""
    prefixes: tuple[str, ...] = ()
    """Prefixes of the bare names of its models."""

    def settings(
        self, environ: Mapping[str, str], *, base_url: str = "", api_key: str = ""
    ) -> ProviderSettings:
        """Return the settings from the environment; the arguments take precedence."""
        found = next((environ[name] for name in self.key_names if environ.get(name)), "")
        address = environ.get(self.address_name, "") if self.address_name else ""
        if address and not base_url:
            base_url = self.read_address(address)
        return ProviderSettings(api_key=api_key or found, base_url=base_url)

    def is_ready(self, environ: Mapping[str, str]) -> bool:
        """Return whether the environment contains a key."""
        return any(environ.get(name) for name in self.key_names)


def _anthropic(settings: ProviderSettings) -> Provider:
    from clew.providers.anthropic import BASE_URL, Anthropic  # noqa: PLC0415

    return Anthropic(
        settings.api_key,
        base_url=settings.base_url or BASE_URL,
        web_search=settings.web_search,
        web_fetch=settings.web_fetch,
        **settings.common(),
    )


def _openai(settings: ProviderSettings) -> Provider:
    from clew.providers.openai_responses import BASE_URL, OpenAIResponses  # noqa: PLC0415

    _refuse("openai", web_fetch=settings.web_fetch)
    return OpenAIResponses(
        settings.api_key,
        base_url=settings.base_url or BASE_URL,
        web_search=settings.web_search,
        **settings.common(),
    )


def _openai_chat(settings: ProviderSettings) -> Provider:
    from clew.providers.openai_chat import OpenAIChat  # noqa: PLC0415

    _refuse("openai_chat", web_search=settings.web_search, web_fetch=settings.web_fetch)
    return OpenAIChat(
        settings.base_url or "https://api.openai.com/v1",
        api_key=settings.api_key,
        **settings.common(),
    )


def _azure(settings: ProviderSettings) -> Provider:
    from clew.providers.azure import AzureOpenAI  # noqa: PLC0415

    _refuse("azure", web_search=settings.web_search, web_fetch=settings.web_fetch)
    if not settings.base_url:
        raise ConfigError(
            "Azure OpenAI needs the address of your resource: set AZURE_OPENAI_ENDPOINT,"
            " such as https://NAME.openai.azure.com"
        )
    return AzureOpenAI(settings.base_url, api_key=settings.api_key, **settings.common())


def _gemini(settings: ProviderSettings) -> Provider:
    from clew.providers.gemini import BASE_URL, Gemini  # noqa: PLC0415

    return Gemini(
        settings.api_key,
        base_url=settings.base_url or BASE_URL,
        google_search=settings.web_search,
        url_context=settings.web_fetch,
        **settings.common(),
    )


def _bedrock(settings: ProviderSettings) -> Provider:
    from clew.providers.bedrock import Bedrock  # noqa: PLC0415

    _refuse("bedrock", web_search=settings.web_search, web_fetch=settings.web_fetch)
    return Bedrock(
        api_key=settings.api_key, endpoint=settings.base_url or None, **settings.common()
    )


def _deepseek(settings: ProviderSettings) -> Provider:
    from clew.providers.deepseek import BASE_URL, DeepSeek  # noqa: PLC0415

    _refuse("deepseek", web_search=settings.web_search, web_fetch=settings.web_fetch)
    return DeepSeek(settings.api_key, base_url=settings.base_url or BASE_URL, **settings.common())


def _make_embedded(settings: ProviderSettings) -> Provider:
    from clew.providers.embedded.provider import Embedded  # noqa: PLC0415

    _refuse("embedded", web_search=settings.web_search, web_fetch=settings.web_fetch)
    return Embedded()


def _compatible(profile: str) -> Callable[[ProviderSettings], Provider]:
    def make(settings: ProviderSettings) -> Provider:
        from clew.providers.compatible import Compatible  # noqa: PLC0415

        return Compatible(
            profile,
            base_url=settings.base_url or None,
            api_key=settings.api_key,
            web_search=settings.web_search,
            web_fetch=settings.web_fetch,
            **settings.common(),
        )

    return make


def _refuse(family: str, **asked: bool) -> None:
    """Reject web tools that a provider lacks."""
    for name, wanted in asked.items():
        if wanted:
            raise ConfigError(
                f"{family} has no built-in {name}; disable it in the options of the profile"
            )


_OWN = (
    ProviderFamily(
        name="anthropic",
        make=_anthropic,
        key_names=("ANTHROPIC_API_KEY",),
        address_name="ANTHROPIC_BASE_URL",
        default_model="claude-sonnet-4-6",
        prefixes=("claude",),
    ),
    ProviderFamily(
        name="openai",
        make=_openai,
        key_names=("OPENAI_API_KEY",),
        address_name="OPENAI_BASE_URL",
        default_model="gpt-5-mini",
        prefixes=("gpt-", "o1", "o3", "o4", "codex", "chatgpt"),
    ),
    ProviderFamily(
        name="gemini",
        make=_gemini,
        key_names=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        default_model="gemini-2.5-flash",
        prefixes=("gemini",),
    ),
    ProviderFamily(
        name="deepseek",
        make=_deepseek,
        key_names=("DEEPSEEK_API_KEY",),
        default_model="deepseek-chat",
        prefixes=("deepseek",),
    ),
    ProviderFamily(
        name="openai_chat",
        make=_openai_chat,
        key_names=("OPENAI_API_KEY",),
        address_name="OPENAI_BASE_URL",
    ),
    ProviderFamily(
        name="azure",
        make=_azure,
        key_names=("AZURE_OPENAI_API_KEY",),
        address_name="AZURE_OPENAI_ENDPOINT",
    ),
    ProviderFamily(
        name="bedrock", make=_bedrock, key_names=("AWS_BEARER_TOKEN_BEDROCK",), needs_key=False
    ),
    ProviderFamily(
        name="embedded",
        make=_make_embedded,
        needs_key=False,
        default_model=SMOLLM2.name,
        prefixes=(SMOLLM2.name,),
    ),
)


def _of_profile(profile: Profile) -> ProviderFamily:
    family = ProviderFamily(
        name=profile.name,
        make=_compatible(profile.name),
        key_names=(profile.key_env,) if profile.key_env else (),
        needs_key=profile.needs_key,
    )
    if profile.name == "ollama":
        return replace(family, address_name="OLLAMA_HOST", read_address=ollama_address)
    return family


FAMILIES: Mapping[str, ProviderFamily] = {
    **{family.name: family for family in _OWN},
    **{profile.name: _of_profile(profile) for profile in PROFILES.values()},
}
"""All names that may precede the slash, in the order in which keys are looked up."""


class ModelMatch(Struct, frozen=True, kw_only=True):
    """A provider family and the name of one of its models."""

    family: ProviderFamily
    model: str


def find_family(name: str) -> ProviderFamily | None:
    """Return the family with that name; case and punctuation do not matter (`LM Studio`).

    Raises:
        ConfigError: An installed package offers it, but cannot be imported.
    """
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    own = next((FAMILIES[key] for key in FAMILIES if key.replace("_", "") == plain), None)
    return own or _find_installed(name)


@lru_cache
def _find_installed(name: str) -> ProviderFamily | None:
    """Return the family that an installed package offers as an entry point `clew.providers`."""
    made = load_installed("clew.providers", name)
    if made is None or isinstance(made, ProviderFamily):
        return made
    return ProviderFamily(name=name, make=made, needs_key=False)


def get_family(name: str) -> ProviderFamily:
    """Return the family with exactly that name.

    Raises:
        ConfigError: There is none.
    """
    family = FAMILIES.get(name) or find_family(name)
    if family is None:
        raise ConfigError(f"there is no provider {name}; available: {', '.join(FAMILIES)}")
    return family


def find_model(model: str) -> ModelMatch:
    """Return the family and model for `family/name`, or for a bare name that identifies it.

    Raises:
        UnknownModel: No family matches.
    """
    head, slash, rest = model.partition("/")
    if slash and rest and (family := find_family(head)) is not None:
        return ModelMatch(family=family, model=rest)
    bare = model.lower()
    for each in FAMILIES.values():
        if any(bare.startswith(prefix) for prefix in each.prefixes):
            return ModelMatch(family=each, model=model)
    raise UnknownModel(
        f"no provider is known for the model {model!r}. Add the provider, as in ollama/{model};"
        f" available: {', '.join(FAMILIES)}"
    )


class ProviderProfile(Protocol):
    """A profile of the settings, resolved; `clew.config.providers.ResolvedProvider` is one."""

    @property
    def name(self) -> str:
        """The name of the profile, for error messages."""
        ...

    @property
    def type(self) -> str:
        """A key of `FAMILIES`."""
        ...

    @property
    def api_key(self) -> str:
        """The key; empty to read it from the environment."""
        ...

    @property
    def base_url(self) -> str:
        """The address; empty to read it from the environment or to use the default."""
        ...

    @property
    def timeout(self) -> float | None:
        """Seconds without data before a call fails; None for the default."""
        ...

    @property
    def options(self) -> Mapping[str, Any]:
        """Request fields of the provider's API, and which of its web tools to enable."""
        ...


def build_provider(profile: ProviderProfile, environ: Mapping[str, str]) -> Provider:
    """Create the provider that `profile` describes, with its timeout, options and web tools.

    `webSearch` and `webFetch` enable the provider's own web tools, either directly in the
    options or inside `builtInWebTools`. All other options become fields of every request.

    Raises:
        ConfigError: An option is invalid, or the provider cannot do what the profile enables.
    """
    family = get_family(profile.type)
    options, web_tools = split_options(profile)
    settings = family.settings(environ, base_url=profile.base_url, api_key=profile.api_key)
    return family.make(replace(settings, timeout=profile.timeout, options=options, **web_tools))


def split_options(profile: ProviderProfile) -> tuple[dict[str, Any], dict[str, bool]]:
    """Return the request fields of a profile, and its web tools by the name of their setting.

    Raises:
        ConfigError: An option is invalid.
    """
    options = dict(profile.options)
    nested = options.pop("builtInWebTools", {})
    direct = {name: options.pop(name) for name in _WEB_TOOLS if name in options}
    if not isinstance(nested, Mapping) or nested.keys() - _WEB_TOOLS.keys():
        raise ConfigError(
            f"providers.{profile.name}.options.builtInWebTools accepts webSearch and webFetch only"
        )
    enabled = {**nested, **direct}
    for name, value in enabled.items():
        if not isinstance(value, bool):
            raise ConfigError(f"providers.{profile.name}.options: {name} must be true or false")
    return options, {_WEB_TOOLS[name]: value for name, value in enabled.items()}
