"""Decisions that make a view smaller: what to drop, truncate and summarise by rules.

The session carries them out and can let a model write the summary; `clew.fit` and the
simulator use them with summaries by rules.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from clew.context.cleared_results import find_consumed, make_marker
from clew.context.compaction_triggers import find_threshold
from clew.context.cuts import find_turn_start
from clew.context.economy import Economy, fixed_tokens, working_set
from clew.context.items import ItemKind
from clew.context.loss_report import WrittenSummary, build_compaction, count_tokens_after
from clew.context.plan import MOST_SUMMARY, Budget, Reduce, Strategy, Stuck, Wording, sum_words
from clew.context.policy import ContextPolicy
from clew.context.protected import choose_protected, find_protected
from clew.context.summary_text import clean_summary, drop_code
from clew.context.view import View
from clew.context.window_state import count_tokens
from clew.core.context_state import SummaryAttempt
from clew.core.entries import Compacted, Trigger
from clew.core.text import pluralize, truncate_middle
from clew.core.usage import Usage

_SUMMARY = ItemKind.SUMMARY
_LEAST_GAIN = 0.10
_CLEAR_OVER = 500
LEAST_DIGEST = 60
_HEADING_UNITS = 24
_PROTECTED = 4
"""Protected results take at most this part of what a compaction leaves."""
_LEAST_TAIL = 1 / 3
"""Share for the recent turns of what is left beside a large request."""
_HEADROOM = 1.2
"""A window as large as this many times the threshold has the threshold at its usual share."""
_SHARES = (1.0, 0.5, 0.25)
"""Of the room for a summary, in the order in which rules try them."""


def make_budget(
    view: View, policy: ContextPolicy, strategy: Strategy, *, window: int | None = None
) -> Budget:
    """Divide what a compaction may leave of `window`, by default the model's own window.

    With a low compaction threshold it may leave less, so that the view is well below it. A current
    request that is larger than the recent turns may be always stays, so less is left for them and
    for the user's older messages.
    """
    window = window or view.setup.model.window
    threshold = find_threshold(view, policy, window=window) or window
    room = min(working_set(policy.economy, view, window=window), window, int(threshold * _HEADROOM))
    fixed = fixed_tokens(view) if room < window else 0
    budget = Budget.of(
        view,
        tokens=fixed + strategy.target(room - fixed),
        window=window,
        recent_turns=policy.preserve_recent_turns,
    )
    start = find_turn_start(view.items)
    request = view.items[start].units if start is not None else 0
    if request <= budget.tail:
        return budget
    share = max(0.0, 1 - request / budget.limit) if budget.limit else 0.0
    rest = view.items.units() - request
    return replace(
        budget,
        tail=min(budget.tail, max(int(budget.tail * share), int(rest * _LEAST_TAIL))),
        words=max(0, budget.words - request),
    )


def limit_summary(view: View, plan: Reduce, budget: Budget) -> Budget:
    """Return the budget with the room that the summary of `plan` may take.

    With a hard limit it may take what is left. Otherwise the compaction must save a tenth of the
    request with it, unless the user's words need more. Where pins or the current request alone
    exceed the target, the summary gets a quarter of what it replaces, so that the compaction
    still frees most of it.
    """
    spare = count_tokens(view) * (1 - _LEAST_GAIN) - count_tokens_after(view, plan)
    most = int(spare / view.calibration.rate) - _HEADING_UNITS
    taken = plan.count_staying(view) + _HEADING_UNITS
    if budget.is_hard:
        return replace(budget, summary=max(LEAST_DIGEST, budget.limit - taken))
    said = _count_words(view, plan, budget)
    summary = max(LEAST_DIGEST, said, min(_fair_share(view, plan, budget), most))
    return replace(budget, summary=summary, limit=max(budget.limit, taken + summary))


def _count_words(view: View, plan: Reduce, budget: Budget) -> int:
    """Return what the summary of `plan` needs for the user's words, in units."""
    return budget.quote(sum_words(view.archived) + plan.dropped_words)


def _fair_share(view: View, plan: Reduce, budget: Budget) -> int:
    said = _count_words(view, plan, budget)
    gone = plan.dropped_units
    left = budget.limit - plan.count_staying(view) - _HEADING_UNITS
    room = max(
        min(left, view.units_for(MOST_SUMMARY) + said), min(gone // 4, budget.summary + said)
    )
    return min(room, gone // 2 + said)


def plan_compaction(
    view: View,
    strategy: Strategy,
    budget: Budget,
    *,
    protect: Sequence[str] = (),
    must: bool = False,
    asked: bool = False,
) -> Reduce | Stuck:
    """Return the strategy's plan, or why it is not worth carrying out.

    A plan must save at least a tenth of the request with the longest summary that it may get, so
    that a summary is not paid for in vain. The written one is checked again.

    Args:
        view: What is compacted.
        strategy: Makes the plan.
        budget: What the compaction may leave.
        protect: Names results that stay as if they were pinned, as far as they fit.
        must: Any saving is enough: the view cannot be sent as it is.
        asked: A user or the model requested it; only the written summary is checked.
    """
    protected = choose_protected(view, protect, room=budget.limit // _PROTECTED)
    plan = strategy.plan(replace(view, pinned=view.pinned | protected.kept), budget)
    if isinstance(plan, Stuck):
        return plan
    if protected.left_out:
        left_out = pluralize(protected.left_out, "protected result does", "protected results do")
        plan = replace(plan, why=f"{plan.why}; {left_out} not fit")
    fault = _find_plan_fault(view, plan, budget, must=must, shortest=must or asked)
    return Stuck(why=fault) if fault else plan


def is_worth_a_call(view: View, plan: Reduce, budget: Budget) -> bool:
    """Return whether `plan` saves a tenth with the longest summary that it may get."""
    return not _find_plan_fault(view, plan, budget, must=False, shortest=False)


def _find_plan_fault(
    view: View, plan: Reduce, budget: Budget, *, must: bool, shortest: bool
) -> str:
    if not (must or plan.replaced or any(item.kind is not _SUMMARY for item in plan.dropped)):
        return "only the summary could be shortened"
    gone = plan.dropped_units
    if plan.wording is Wording.NOTICE:
        summary = min(_HEADING_UNITS, gone)
    elif shortest:
        summary = 0
    else:
        summary = min(gone, max(LEAST_DIGEST, _fair_share(view, plan, budget)))
    extra = round(summary * view.calibration.rate)
    return _judge_gain(count_tokens(view), count_tokens_after(view, plan) + extra, must=must)


def find_gain_fault(body: Compacted, *, must: bool) -> str:
    """Return why a compaction is not worth it; an empty string if it is.

    Args:
        body: The compaction.
        must: Accept any saving, because the view cannot be sent as it is.
    """
    return _judge_gain(body.report.tokens_before, body.report.tokens_after, must=must)


def _judge_gain(before: int, after: int, *, must: bool) -> str:
    saved = before - after
    if must and saved <= 0:
        return "the summary would be longer than the text it replaces"
    return "" if must or saved >= _LEAST_GAIN * before else "it would save too little"


def plan_without_summary(view: View, *, protect: Sequence[str] = ()) -> Reduce:
    """Clear all answered tool results and drop nothing: the way out if no summary is short enough.

    The plan may be empty.
    """
    excluded = view.pinned | find_protected(view, protect)
    places = find_consumed(view.items, excluded=excluded, min_chars=_CLEAR_OVER)
    return Reduce(
        replaced=tuple(make_marker(view.items[place]) for place in places),
        wording=Wording.RULES,
        why="no summary was short enough, so answered tool results are cleared",
    )


def economize(plan: Reduce | Stuck, policy: ContextPolicy) -> Reduce | Stuck:
    """Let rules write the summary of an automatic compaction of a `lean` session.

    Such a session compacts often; a model call each time would cost more than it saves. A
    strategy that names its own model for summaries keeps it.
    """
    if isinstance(plan, Stuck) or policy.economy is not Economy.LEAN or plan.summary_model:
        return plan
    is_model = plan.wording is Wording.MODEL
    return replace(plan, wording=Wording.RULES) if is_model else plan


def summarise_by_rules(
    view: View, plan: Reduce, budget: Budget, *, notes: str = "", usage: Usage | None = None
) -> WrittenSummary:
    """Write the summary for `plan`: the notes of a model, if there are any, and a digest.

    Together they take `budget.summary`; see `limit_summary`. Without new notes, those of an
    earlier compaction stay in force.
    """
    author = "model" if notes else "rules"
    if not plan.dropped:
        return WrittenSummary(text="", author=author, usage=usage)
    # Only the first message of a view can be a summary.
    start = 1 if plan.dropped[0].kind is _SUMMARY else 0
    gone = plan.dropped[start:]
    if plan.wording is Wording.NOTICE:
        return WrittenSummary(text=f"{len(gone)} earlier messages were set aside.", author="rules")
    from clew.context.digest.history import History  # noqa: PLC0415 - few sessions ever need it
    from clew.context.digest.rule_summary import prepare_digest  # noqa: PLC0415 - the same

    history = view.memo.get(History)
    conversation = history.follow_view(view)
    most = budget.summary // 2 if budget.is_hard else budget.summary
    notes = notes or truncate_middle(clean_summary(view.notes), most)
    if view.meter(notes) > budget.notes:
        notes = drop_code(notes)
    leaving, entries = view.restore_texts(gone), plan.dropped_entries[start:]
    digest = prepare_digest(
        [*view.archived, *leaving] if view.archived else leaving,
        entries=[*view.archived.ids, *entries] if view.archived else entries,
        staying=[item for item in plan.list_staying(view) if item.kind is not _SUMMARY],
        # Without a journal the old summary is all there is of what it covers.
        previous="" if view.archived or view.notes else view.summary,
        beside=(notes, budget.beside),
        conversation=conversation,
        history=history,
        keep_words=not budget.is_hard,
    )
    words = 0 if budget.is_hard else min(_count_words(view, plan, budget), budget.summary)
    notes, told = digest.write_after(
        notes,
        max_notes=budget.notes,
        max_units=budget.summary,
        least=max(LEAST_DIGEST, words),
        meter=view.meter,
    )
    text = f"{notes}\n\n{told}" if notes else told
    return WrittenSummary(text=text, author=author, notes=notes, usage=usage)


def draft_by_rules(view: View, plan: Reduce, budget: Budget) -> Iterator[WrittenSummary]:
    """Yield summaries without a model, each shorter than the one before."""
    sizes = [max(LEAST_DIGEST, int(budget.summary * share)) for share in _SHARES]
    for size in dict.fromkeys(sizes):
        yield summarise_by_rules(view, plan, replace(budget, summary=size))


def compact_by_rules(
    view: View, policy: ContextPolicy, strategy: Strategy, *, trigger: Trigger = "auto"
) -> Compacted | Stuck:
    """Return the entry of a compaction that needs no model."""
    budget = make_budget(view, policy, strategy)
    asked = trigger != "auto"
    plan = plan_compaction(view, strategy, budget, protect=policy.protect, asked=asked)
    if isinstance(plan, Stuck):
        return plan
    from clew.context.file_versions import restore_files  # noqa: PLC0415 - few sessions need it

    restored = restore_files(view, plan, budget)
    for draft in draft_by_rules(view, plan, limit_summary(view, plan, restored.budget)):
        tried = (SummaryAttempt(author="rules", outcome="used"),) if draft.text else ()
        summary = replace(restored.add_to(draft), attempts=tried)
        body = build_compaction(view, plan, summary, trigger=trigger, strategy=strategy.name)
        if not find_gain_fault(body, must=False):
            return body
    return Stuck(why="the summary would be longer than the text it replaces")
