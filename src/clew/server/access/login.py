"""Signing a browser in and out: `/login` and `/logout`.

`GET /login?code=…` takes a one-time code, `POST /login` the token from a form. Both set a cookie
that scripts cannot read and that browsers send to this server's own pages only.
"""

from html import escape
from urllib.parse import parse_qs

from aiohttp import web

from clew.server.access.authentication import Authenticator, name_cookie
from clew.server.access.origins import Client
from clew.server.access.tokens import COOKIE_SECONDS, LoginCodes
from clew.server.access.users import OWNER

LOGIN_PATH = "/login"
LOGOUT_PATH = "/logout"
STYLE_PATH = "/login.css"
_FORM_TYPE = "application/x-www-form-urlencoded"

_FORM = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Sign in to Clew</title>
<link rel="stylesheet" href="/login.css">
<main><h1>Sign in to Clew</h1>
<p role="status">{note}</p>
<form method="post" action="/login">
<label for="token">Token</label>
<input id="token" type="password" name="token" required autofocus
 autocomplete="current-password">
<button>Sign in</button>
</form>
<p>The token is in <code>server.token</code> in the clew folder of the person who runs the server,
or the one that you were given.</p></main></html>
"""

_STYLE = """
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { display: grid; min-height: 90vh; margin: 1rem; place-items: center; }
main { max-width: 26rem; }
h1 { font-size: 1.5rem; }
form { display: grid; gap: 0.5rem; margin: 1.5rem 0; }
input, button { font: inherit; padding: 0.5rem; border: 1px solid; border-radius: 0.375rem; }
button { cursor: pointer; font-weight: 600; }
code { font-size: 0.9em; }
"""


def answer_style() -> web.Response:
    """Answer `GET /login.css`: a page without inline styles needs no exception in its policy."""
    return web.Response(text=_STYLE, content_type="text/css")


async def answer_login(
    request: web.Request, client: Client, *, authenticator: Authenticator, codes: LoginCodes
) -> web.Response:
    """Answer `GET` and `POST /login`; 401 if the code or the token is not valid."""
    if request.method == "POST":
        return await _answer_form(request, client, authenticator)
    code = request.query.get("code", "")
    if not code:
        return _show_form("Paste your token.", 200)
    if not codes.take(code):
        return _show_form("The link was used already, or is too old. Paste your token.", 401)
    return _sign_in(client, authenticator, OWNER)


def answer_logout(client: Client) -> web.Response:
    """Answer `POST /logout`: the browser forgets the cookie."""
    response = web.Response(status=303, headers={"Location": LOGIN_PATH})
    response.del_cookie(name_cookie(client), path="/", secure=client.scheme == "https")
    return response


async def _answer_form(
    request: web.Request, client: Client, authenticator: Authenticator
) -> web.Response:
    if request.content_type != _FORM_TYPE:
        return _show_form("The form was not sent as a browser does. Paste your token.", 415)
    fields = parse_qs((await request.read()).decode("utf-8", "replace"))
    name = authenticator.find_by_token(fields.get("token", [""])[0].strip())
    if name is None:
        return _show_form("The token is wrong.", 401)
    return _sign_in(client, authenticator, name)


def _sign_in(client: Client, authenticator: Authenticator, name: str) -> web.Response:
    response = web.Response(status=303, headers={"Location": "/"})
    response.set_cookie(
        name_cookie(client),
        authenticator.make_cookie(name),
        max_age=COOKIE_SECONDS,
        path="/",
        httponly=True,
        samesite="Strict",
        secure=client.scheme == "https",
    )
    return response


def _show_form(note: str, status: int) -> web.Response:
    text = _FORM.format(note=escape(note))
    return web.Response(status=status, text=text, content_type="text/html")
