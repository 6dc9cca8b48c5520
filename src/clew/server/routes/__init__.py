"""The table of routes, by topic."""

from clew.server.route import AnyRoute
from clew.server.routes.commands import COMMAND_ROUTES
from clew.server.routes.context import CONTEXT_ROUTES
from clew.server.routes.conversation import CONVERSATION_ROUTES
from clew.server.routes.server import SERVER_ROUTES
from clew.server.routes.sessions import SESSION_ROUTES
from clew.server.routes.tasks import TASK_ROUTES

ROUTES: tuple[AnyRoute, ...] = (
    *SERVER_ROUTES,
    *SESSION_ROUTES,
    *CONVERSATION_ROUTES,
    *CONTEXT_ROUTES,
    *TASK_ROUTES,
    *COMMAND_ROUTES,
)
"""Every route of the API."""
