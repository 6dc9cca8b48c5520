"""The base of all sections of the settings, and those for what shows and traces a session."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, TypeAlias, TypeVar, Union

from msgspec import UNSET, Meta, Struct, UnsetType

_T = TypeVar("_T")
Maybe: TypeAlias = Union[_T, UnsetType]  # noqa: UP007 - `|` has no generic form on Python 3.11
"""A value that a file need not set."""
Aliases: TypeAlias = Mapping[str, str]
"""Other names of keys, each with its canonical name."""


def about(description: str) -> Meta:
    """Return the description of a setting."""
    return Meta(description=description)


class Section(
    Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """An object in a settings file."""

    aliases: ClassVar[Aliases] = MappingProxyType({})


class TerminalSection(Section, frozen=True):
    """How the terminal looks and behaves."""

    theme: Maybe[
        Annotated[
            Literal["dark", "light", "colour-blind"], about("The colours of the terminal; dark.")
        ]
    ] = UNSET
    vi_mode: Maybe[Annotated[bool, about("Edit the input with the keys of vi; false.")]] = UNSET
    title: Maybe[Annotated[bool, about("Show the session in the window title; true.")]] = UNSET
    notify: Maybe[
        Annotated[
            Literal["off", "bell", "osc9", "both"],
            about("How to tell you that a long run has ended or asks: both."),
        ]
    ] = UNSET
    notify_after: Maybe[
        Annotated[int, Meta(ge=0), about("Seconds without a key before that is done; 10.")]
    ] = UNSET
    key_bindings: Annotated[
        dict[str, str], about("The keys of actions, such as c-o for `expand`.")
    ] = {}


class StatusLineSection(Section, frozen=True):
    """A command whose output is the status line, in the format of Claude Code."""

    command: Annotated[
        str, Meta(min_length=1), about("A shell command; it reads JSON and prints one line.")
    ]
    type: Maybe[Annotated[Literal["command"], about("Always `command`.")]] = UNSET
    padding: Maybe[Annotated[int, Meta(ge=0, le=20), about("Spaces before the line; 0.")]] = UNSET


class TelemetrySection(Section, frozen=True):
    """OpenTelemetry traces and metrics."""

    enabled: Maybe[
        Annotated[
            bool, about("Trace sessions; by default, if the program has set up OpenTelemetry.")
        ]
    ] = UNSET
    content: Maybe[
        Annotated[
            bool, about("Record prompts, answers and tool results too, without secrets; false.")
        ]
    ] = UNSET
