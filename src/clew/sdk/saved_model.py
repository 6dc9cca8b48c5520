"""The provider and model that a session used last: stored with it, restored when it is resumed.

They are in the `extra` fields of the session's record, which an import never takes over: a file
from elsewhere must not decide which server gets your key.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import Struct, structs

from clew.core.entries import SessionRecord
from clew.core.errors import SessionNotFound
from clew.sdk.session_spec import SessionSpec
from clew.sdk.session_store import MODEL_FIELD
from clew.session.session import Session
from clew.stores.record import StoredSession, merge_extra


class SavedModel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a session reached its model; never contains a key."""

    model: str
    provider: str = ""
    """A profile of the settings, or a provider family; empty for the single `provider` of older
    settings, which has no name."""
    base_url: str = ""
    """The address of the server; empty for the provider's own."""
    from_environ: bool = False
    """True if the user did not name the address, so that a variable that names one counts."""
    window: int | None = None
    """The window that the user set; None for the model's own."""


def without_secrets(url: str) -> str:
    """Return an address without user, password, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def find_saved_model(record: StoredSession) -> SavedModel | None:
    """Return what the record says; None for a session of an older release, or an imported one."""
    try:
        return msgspec.convert(record.extra.get(MODEL_FIELD), SavedModel)
    except msgspec.ValidationError:
        return None


def restore_model(
    spec: SessionSpec, saved: SavedModel, names_provider: Callable[[str], bool]
) -> SessionSpec:
    """Return the spec with the saved provider and model wherever it names none itself.

    Args:
        spec: What the user asks for.
        saved: What the session used.
        names_provider: Tells whether a model's name is enough to find its provider.
    """
    if spec.provider and spec.provider != saved.provider:
        return spec
    model = spec.model or saved.model
    window = spec.window or (saved.window if model == saved.model else None)
    if spec.base_url:
        return structs.replace(spec, model=model, window=window)
    if spec.model and not spec.provider and names_provider(spec.model):
        return spec
    return structs.replace(
        spec, provider=saved.provider, base_url=saved.base_url, model=model, window=window
    )


async def save_model(session: Session, saved: SavedModel) -> None:
    """Store what a session uses now; for a new session, with its first message."""
    journal = session.journal
    fields: dict[str, Any] = {MODEL_FIELD: msgspec.to_builtins(saved)}
    record = journal.record
    known = record.extra if isinstance(record, StoredSession) else {}
    if known.get(MODEL_FIELD) == fields[MODEL_FIELD]:
        return
    journal.record = _annotate(record, merge_extra(known, fields))
    if isinstance(record, StoredSession):
        try:
            await session.state.options["store"].annotate(record.id, fields)
        except SessionNotFound:
            # Nothing was said yet, so nothing is stored yet.
            return


def _annotate(record: SessionRecord, extra: dict[str, object]) -> StoredSession:
    if isinstance(record, StoredSession):
        return structs.replace(record, extra=extra)
    return StoredSession(**structs.asdict(record), extra=extra)
