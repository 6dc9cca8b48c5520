"""Which model an agent runs on."""

from clew.providers.catalogue import families


def resolve_model(name: str, parent: str) -> str:
    """Return the model that `name` means to an agent whose caller runs on `parent`.

    A family of Claude, such as `sonnet`, `haiku` or `opus`, is its newest model. Nothing,
    `inherit` and `default` are the caller's model, and anything else is a model's own name.

    Definitions travel, and most of them name a family of Claude. To a caller on another model,
    or one whose host spells its models in a way of its own (`us.anthropic.claude-…-v1:0`),
    that family is out of reach: the agent then runs on what its caller runs on.
    """
    wanted = name.strip()
    family = wanted.lower().partition("[")[0]
    if family in {"", "inherit", "default"}:
        return parent
    newest = _newest(family)
    if newest is None:
        return wanted
    return newest if _is_bare_claude(parent) else parent


def _newest(family: str) -> str | None:
    """Return the newest model of a family of Claude; None when there is no such family."""
    if not family.isalpha():
        return None
    names = (facts.name for facts in families())
    return next((name for name in names if name.startswith(f"claude-{family}-")), None)


def _is_bare_claude(model: str) -> bool:
    return model.lower().startswith("claude-") and not set("@:/") & set(model)
