"""Where users say that plugins and marketplaces come from: in an argument, or in settings."""

from pathlib import Path

from clew.core.errors import ConfigError
from clew.extensions.plugins.sources import (
    ARCHIVE_ENDINGS,
    GitSource,
    PathSource,
    Source,
    parse_git_source,
    parse_source_object,
)
from clew.sdk.settings import LoadedSettings

_LIST = "marketplace.json"


def parse_source(text: str, cwd: Path) -> Source | None:
    """Return the source that a user names; None if the text is not of a form that Clew knows.

    `./folder`, `/folder`, `~/folder` and names of archives are paths; everything else is a git
    repository.

    Raises:
        ConfigError: It is an address that Clew cannot use.
    """
    is_archive = text.endswith(ARCHIVE_ENDINGS) and "://" not in text
    if text.startswith((".", "/", "~")) or is_archive:
        path = (cwd / Path(text).expanduser()).resolve()
        # The file stands for the marketplace that it describes.
        is_list = path.name == _LIST and path.is_file()
        return PathSource(path=str(path.parent.parent if is_list else path))
    if "://" in text and text.partition("#")[0].endswith((".json", *ARCHIVE_ENDINGS)):
        raise ConfigError(f"{text} is a file; download it, and give its path instead")
    return parse_git_source(text)


def find_settings_marketplaces(loaded: LoadedSettings, cwd: Path) -> dict[str, Source]:
    """Return the marketplaces in the settings that apply, by name.

    Those of a project are among them once it is trusted. Sources that Clew cannot use are left
    out.
    """
    found: dict[str, Source] = {}
    for name, entry in loaded.settings.extra_known_marketplaces.items():
        source = parse_source_object(entry.source)
        if isinstance(source, PathSource):
            found[name] = PathSource(path=str((cwd / source.path).resolve()))
        elif isinstance(source, GitSource):
            found[name] = source
    return found
