"""Going on after a provider refused thinking that it was sent back."""

from clew.context.reasoning import is_private_to
from clew.core.entries import ReasoningDropped
from clew.core.errors import ProviderError
from clew.core.events import Warned
from clew.session.state import SessionState


async def drop_reasoning(kit: SessionState, refusal: ProviderError) -> bool:
    """Leave out what only the session's provider understands, from here on.

    One bad signature seldom comes alone (another account, a changed history), and there is
    one retry: so all that this family signed goes, in one entry that says why.

    Returns:
        False when there was nothing to leave out, so that a retry would not help.
    """
    name = kit.provider.name
    targets = tuple(
        item.entry_id for item in kit.journal.view.items if is_private_to(item.message, name)
    )
    if not targets:
        return False
    why = f"{refusal.provider} did not accept the thinking that it was sent back"
    await kit.journal.append(ReasoningDropped(targets=targets, why=why))
    kit.emit(Warned(f"{why}; the call is made again without it"))
    return True
