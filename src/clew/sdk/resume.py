"""Which session to resume, and with which model: what the session used before, if possible."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import structs

from clew.core.errors import ConfigError, SessionNotFound, UnknownModel
from clew.core.text import one_line
from clew.providers.profiles import PROFILES
from clew.sdk.local_servers import is_listening
from clew.sdk.model_choice import FindLocal, ModelChoice, ModelChooser
from clew.sdk.saved_model import SavedModel, find_saved_model, restore_model
from clew.sdk.session_spec import SessionSpec
from clew.sdk.session_store import ProjectStore, find_session, project_store
from clew.stores.record import StoredSession

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_SHOWN = 80


async def list_resumable(
    cwd: Path, environ: Mapping[str, str] | None = None, *, limit: int = 200
) -> list[StoredSession]:
    """Return the sessions of a folder that people use, the newest first."""
    place = project_store(cwd, environ)
    try:
        if place.is_empty:
            return []
        return await place.store.sessions(cwd=place.folder, kind="", limit=limit)
    finally:
        await place.store.aclose()


async def find_record(spec: SessionSpec, place: ProjectStore) -> StoredSession | None:
    """Return the stored session that a spec continues or copies; None for a new session.

    Raises:
        SessionNotFound: No session matches, or more than one does.
    """
    if wanted := spec.resume or spec.fork:
        return await find_session(place, wanted)
    if not spec.latest:
        return None
    known = await place.store.sessions(cwd=place.folder, kind="", limit=1)
    if not known:
        raise SessionNotFound("there is no session in this folder to continue")
    return known[0]


async def choose_model(
    spec: SessionSpec,
    record: StoredSession | None,
    chooser: ModelChooser,
    find_local: FindLocal,
) -> ModelChoice:
    """Choose the model of a session; a resumed one keeps provider, address, model and window.

    What the spec names counts before what the session used.

    Raises:
        ConfigError: The provider cannot be made, for example because its key is missing; for a
            resumed session, the message says how to resume it with another model.
    """
    saved = find_saved_model(record) if record is not None else None
    if record is not None and saved is None:
        return await _choose_by_name(spec, record, chooser, find_local)
    if record is None or saved is None:
        return _keep_window(await chooser.choose_first(spec, find_local), spec)
    restored = restore_model(spec, saved, chooser.names_provider)
    try:
        if restored is spec or spec.base_url:
            choice = await chooser.choose_first(restored, find_local)
        else:
            choice = await _choose_saved(restored, saved, chooser, find_local)
        if choice.saved is not None and not (spec.base_url or spec.provider):
            await _check_server(choice.saved)
    except ConfigError as error:
        if restored is spec:
            raise
        raise _explain(record, saved, error) from error
    return _keep_window(choice, restored)


async def _choose_saved(
    restored: SessionSpec, saved: SavedModel, chooser: ModelChooser, find_local: FindLocal
) -> ModelChoice:
    """Choose the provider and the address that the session used."""
    if not saved.provider and (single := chooser.choose_single(restored.model)) is not None:
        return single
    if chooser.reads_address(saved):
        return await chooser.choose_first(structs.replace(restored, base_url=""), find_local)
    choice = await chooser.choose_first(restored, find_local)
    if choice.saved is None or not saved.from_environ:
        return choice
    return replace(choice, saved=structs.replace(choice.saved, from_environ=True))


async def _choose_by_name(
    spec: SessionSpec, record: StoredSession, chooser: ModelChooser, find_local: FindLocal
) -> ModelChoice:
    """Choose for a session that records only the name of its model, such as an import."""
    if spec.provider or spec.base_url or spec.model or not record.model:
        return _keep_window(await chooser.choose_first(spec, find_local), spec)
    try:
        choice = chooser.choose_model(record.model, port=spec.port)
    except ConfigError:
        choice = await chooser.choose_first(spec, find_local)
        if choice.model != record.model:
            name = one_line(record.model, _SHOWN)
            warning = (
                f"this session used {name}, for which no provider is set up; it continues"
                f" with {choice.model}"
            )
            choice = replace(choice, warning=warning)
    return _keep_window(choice, spec)


def _keep_window(choice: ModelChoice, spec: SessionSpec) -> ModelChoice:
    """Return the choice with the window that the spec gives the model."""
    if spec.window is None:
        return choice
    saved = structs.replace(choice.saved, window=spec.window) if choice.saved else None
    return replace(choice, window=spec.window, saved=saved)


async def _check_server(saved: SavedModel) -> None:
    """Make sure that a server on this machine runs; raises `UnknownModel` if not."""
    profile = PROFILES.get(saved.provider)
    address = saved.base_url or (profile.base_url if profile is not None else "")
    if urlsplit(address).hostname in _LOOPBACK and not await is_listening(address):
        raise UnknownModel(f"no server answers at {address}; start it")


def _explain(record: StoredSession, saved: SavedModel, error: ConfigError) -> ConfigError:
    where = f"{saved.provider}/{saved.model}" if saved.provider else saved.model
    text = str(error).rstrip(".")
    return UnknownModel(
        f"session {record.id} used {one_line(where, _SHOWN)}, which cannot be used now: {text}."
        f" To resume it with another model: clew --resume {record.id} --model NAME"
    )
