"""What makes a view fit its window: the check before a model call, and requests to compact.

What is due is carried out by `clew.session.compaction`, which few sessions ever load.
"""

from clew.context.compaction_triggers import is_preparation_due, needs_room
from clew.context.plan import Stuck
from clew.context.strategies import make_strategy
from clew.core.entries import Compacted
from clew.core.errors import ClewError, NothingToDrop
from clew.core.events import Warned
from clew.providers.prices import is_local
from clew.session.state import SessionState


async def fit(state: SessionState) -> int:
    """Make the view fit: compact it if that is due, and refuse to send what is too long.

    Returns:
        The tokens of the next request.

    Raises:
        ContextFull: The view is still above the hard limit; nothing was sent.
    """
    state.publish_context()
    used = state.used_tokens
    if needs_room(state.journal.view, state.policy, state.strategy, used=used):
        # Imported here because few sessions are ever compacted, and it loads much.
        from clew.session.compaction import make_room  # noqa: PLC0415

        await make_room(state)
        used = state.used_tokens
    await prepare_summary(state, used)
    return used


async def compact_if_requested(state: SessionState) -> None:
    """Do the compaction that was asked for during the run; a failure is a warning."""
    request, state.compaction_request = state.compaction_request, None
    if request is None:
        return
    from clew.session.compaction import compact  # noqa: PLC0415 - see `fit`

    try:
        await compact(
            state, trigger="manual", instructions=request.instructions, force=request.force
        )
    except ClewError as error:
        state.emit(Warned(f"the requested compaction failed: {error}"))


async def compact_now(
    state: SessionState, instructions: str = "", *, force: bool = False
) -> Compacted:
    """Compact because the user asked for it.

    Args:
        state: The session.
        instructions: What the summary should keep.
        force: Compact even if that saves less than a tenth of the tokens.

    Raises:
        NothingToDrop: There is nothing to remove, or too little would be gained.
    """
    from clew.session.compaction import compact  # noqa: PLC0415 - see `fit`

    done = await compact(
        state, trigger="manual", instructions=instructions, force=force, paced=False
    )
    assert done is not None  # noqa: S101 - only an automatic compaction may do nothing
    return done


def preview(state: SessionState, strategy: str = "") -> Compacted:
    """Preview a compaction, with a rule-based summary; changes nothing.

    Args:
        state: The session.
        strategy: The name of a strategy. Default: the session's own.

    Raises:
        NothingToDrop: There is nothing to remove, or too little would be gained.
        ConfigError: There is no such strategy.
    """
    from clew.context.compaction_plan import compact_by_rules  # noqa: PLC0415 - see `fit`

    chosen = make_strategy(strategy) if strategy else state.strategy
    body = compact_by_rules(state.journal.view, state.policy, chosen, trigger="manual")
    if isinstance(body, Stuck):
        raise NothingToDrop(f"nothing can be compacted: {body.why}", state=state.context_state())
    return body


async def prepare_summary(state: SessionState, used: int | None = None) -> None:
    """Start to prepare a summary, if the policy wants that now and none is there.

    Args:
        state: The session.
        used: The tokens of the next request, if they are known.
    """
    view, previous = state.journal.view, state.preparation
    if state.policy.background_compaction == "off" or state.is_closed:
        return
    if previous is not None and not previous.allows_next(view):
        return
    local = is_local(state.provider.name)
    used = state.used_tokens if used is None else used
    if is_preparation_due(view, state.policy, state.strategy, used=used, is_local=local):
        from clew.session.background_compaction import start_preparation  # noqa: PLC0415 - the same

        await start_preparation(state)
