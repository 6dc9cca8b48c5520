"""The text of a skill as the model gets it: with the output of its commands, and its files."""

from pathlib import Path

import msgspec

from clew.core.ids import new_call_id
from clew.core.messages import ToolCall
from clew.extensions.skill_template import EmbeddedCommand, SkillPiece, read_skill, render_skill
from clew.extensions.skills import Skill
from clew.session.session import Session
from clew.session.state import SessionState

_SHELL = "Bash"
MOST_COMMANDS = 20
"""Commands of one skill that are run."""


class SkillText:
    """A skill with its arguments filled in; its commands run when the text is written.

    Args:
        session: Where commands run and files are read, after permission.
        pieces: Texts, and the commands between them.
        ending: What follows the text.
        reads_files: Attach the files that `@path` names.
    """

    def __init__(
        self,
        session: Session,
        pieces: tuple[SkillPiece, ...],
        ending: str = "",
        *,
        reads_files: bool = True,
    ) -> None:
        self._session = session
        self._pieces = pieces
        self._ending = ending
        self._reads_files = reads_files

    @property
    def plain(self) -> str:
        """The text with the commands as they are written."""
        texts = (one if isinstance(one, str) else f"!`{one.command}`" for one in self._pieces)
        return "".join(texts) + self._ending

    async def write(self) -> str:
        """Return the text with the output of each command in its place, and the files it names.

        A command that is denied or fails leaves its message in its place.
        """
        # Most skills have neither commands nor files.
        from clew.session.attachments import read_references  # noqa: PLC0415

        state, written, count = self._session.state, [], 0
        for piece in self._pieces:
            if isinstance(piece, EmbeddedCommand):
                count += 1
                written.append(await _run(state, piece.command, count))
            else:
                written.append(piece)
        own = "\n".join(piece for piece in self._pieces if isinstance(piece, str))
        files = await read_references(state, own) if self._reads_files and "@" in own else []
        return "\n\n".join(("".join(written) + self._ending, *files))


def make_skill_text(session: Session, skill: Skill, arguments: str, *, cwd: Path) -> SkillText:
    """Return a skill with its arguments; one with a folder of its own names it.

    The skills of a project came with its folder: their commands and files stay text.

    Raises:
        ConfigError: The file no longer exists, or cannot be read.
    """
    is_own = skill.source != "project"
    session_id = session.session_id
    pieces: tuple[SkillPiece, ...]
    if is_own:
        pieces = read_skill(skill, arguments, session_id=session_id, project_dir=cwd)
    else:
        pieces = (render_skill(skill, arguments, session_id=session_id, project_dir=cwd),)
    has_folder = skill.path.name == "SKILL.md"
    where = f"\n\n(Files that this skill names are in {skill.folder})" if has_folder else ""
    return SkillText(session, pieces, where, reads_files=is_own)


async def _run(state: SessionState, command: str, count: int) -> str:
    from clew.session.attachments import read_output  # noqa: PLC0415 - as above

    if count > MOST_COMMANDS:
        return f"[not run: a skill runs at most {MOST_COMMANDS} commands]"
    arguments = msgspec.json.encode({"command": command}).decode()
    return await read_output(
        state, ToolCall(call_id=new_call_id(), name=_SHELL, arguments=arguments)
    )
