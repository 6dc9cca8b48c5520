"""An MCP server without the SDK: of an older protocol, quick to start, and hostile on request.

Started as `python plain_server.py [MODE]`; the modes are keys of `MODES`.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def read() -> Json:
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    found: Json = json.loads(line)
    return found


def tool(name: str, description: str = "", schema: Json | None = None, **more: Any) -> Json:
    return {"name": name, "description": description, "inputSchema": schema or TEXT, **more}


TOOLS = [
    tool("echo", "Return the text.", annotations={"readOnlyHint": True}),
    tool("pid", "Return the process id."),
    tool("environment", "Return the names of the variables."),
    tool("die", "End at once."),
    tool("hang", "Never answer; says so when the call is cancelled."),
    tool("progress", "Report progress three times."),
    tool("image", "Return an image."),
    tool("structured", "Return structured content."),
    tool("fail", "Return an error."),
    tool("error", "Answer with a protocol error."),
    tool("ask", "Ask the user."),
    tool("sample", "Ask the model."),
    tool("grow", "Offer another tool."),
    tool("child", "Start a process that outlives the server."),
    tool("huge", "Return 3 million characters."),
]


if "tracing" in sys.argv:
    TOOLS.append(tool("trace", "Return the trace that the call belongs to."))


def text_result(text: str, **more: Any) -> Json:
    return {"content": [{"type": "text", "text": text}], **more}


def ask_client(method: str, params: Json) -> Json:
    """Send a request to the client and wait for its answer."""
    send(id="question", method=method, params=params)
    while True:
        message = read()
        if message.get("id") == "question":
            return message


def call(name: str, arguments: Json, params: Json) -> Json:
    run = RUN.get(name)
    return text_result(f"called {name}") if run is None else run(arguments, params)


def hang(_: Json, __: Json) -> Json:
    notes = Path(os.environ["MCP_NOTES"])
    notes.with_name("started").touch()
    while True:
        message = read()
        if message.get("method") == "notifications/cancelled":
            notes.touch()
            return text_result("too late")


def die(_: Json, __: Json) -> Json:
    os._exit(3)


def progress(_: Json, params: Json) -> Json:
    token = params["_meta"]["progressToken"]
    for done in (1, 2, 3):
        update = {"progressToken": token, "progress": done, "total": 3, "message": f"step {done}"}
        send(method="notifications/progress", params=update)
    return text_result("all steps are done")


def ask(arguments: Json, _: Json) -> Json:
    schema = json.loads(arguments["text"])
    params = {"message": "Which one?", "requestedSchema": {"type": "object", "properties": schema}}
    return text_result(json.dumps(ask_client("elicitation/create", params).get("result")))


def sample(arguments: Json, _: Json) -> Json:
    content = {"type": "text", "text": arguments["text"]}
    messages = [{"role": "user", "content": content}]
    answer = ask_client("sampling/createMessage", {"messages": messages, "maxTokens": 100})
    return text_result(json.dumps(answer.get("result") or answer.get("error")))


def trace(_: Json, params: Json) -> Json:
    return text_result(f"trace={params.get('_meta', {}).get('traceparent', '')}")


def grow(_: Json, __: Json) -> Json:
    TOOLS.append(tool("grown", "A tool that came later."))
    send(method="notifications/tools/list_changed")
    return text_result("there is another tool")


def child(_: Json, __: Json) -> Json:
    process = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL)
    return text_result(str(process.pid))


RUN: dict[str, Callable[[Json, Json], Json]] = {
    "echo": lambda arguments, _: text_result(arguments.get("text", "")),
    "pid": lambda _, __: text_result(str(os.getpid())),
    "environment": lambda _, __: text_result(" ".join(sorted(os.environ))),
    "die": die,
    "hang": hang,
    "progress": progress,
    "image": lambda _, __: {"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]},
    "structured": lambda _, __: {"content": [], "structuredContent": {"answer": 42}},
    "trace": trace,
    "fail": lambda _, __: text_result("this did not work", isError=True),
    "ask": ask,
    "sample": sample,
    "grow": grow,
    "child": child,
    "huge": lambda _, __: text_result("x" * 3_000_000),
}


def list_tools(_: Json) -> Json:
    return {"tools": TOOLS}


def list_endless(params: Json) -> Json:
    page = int(params.get("cursor", "0"))
    return {"tools": [tool(f"tool{page}")], "nextCursor": str(page + 1)}


def list_hostile(_: Json) -> Json:
    escape = "\x1b]0;owned\x07\u202e"
    return {
        "tools": [
            tool("same", "first"),
            tool("same", "second"),
            tool("a b", "with a blank"),
            tool("a.b", "with a point"),
            tool(f"title{escape}", f"look {escape} here"),
            tool("x" * 300, "y" * 100_000),
            tool("", "without a name"),
            tool("large", schema={"type": "object", "description": "z" * 200_000}),
        ]
    }


def print_garbage() -> None:
    sys.stdout.write('Welcome!\n{"not": "a message"}\n[1, 2]\n\x00\xff\n{broken\n\n')
    sys.stdout.flush()


def never_start() -> None:
    time.sleep(1_000)


def wait_to_start() -> None:
    while not Path(os.environ["MCP_GATE"]).exists():
        time.sleep(0.01)


def fail_to_start() -> None:
    sys.stderr.write("the database password is missing\n")
    sys.exit(1)


def flood() -> None:
    while True:
        sys.stdout.write("x" * 1_000_000)


MODES: dict[str, Callable[[], None]] = {
    "garbage": print_garbage,
    "silent": never_start,
    "failing": fail_to_start,
    "waiting": wait_to_start,
    "flood": flood,
}
LISTS: dict[str, Callable[[Json], Json]] = {"endless": list_endless, "hostile": list_hostile}
PROMPTS = [
    {
        "name": "review",
        "description": "Review a file.",
        "arguments": [{"name": "path", "required": True}, {"name": "focus"}],
    }
]


def answer_untyped(message: Json) -> Json | None:
    """Answer in the protocol of 2026, without the types of results."""
    hints = {"ttlMs": 0, "cacheScope": "private"}
    match message["method"]:
        case "server/discover":
            about = {"serverInfo": {"name": "plain", "version": "1"}}
            return (
                {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}} | about | hints
            )
        case "tools/list":
            return {"tools": TOOLS} | hints
        case "tools/call":
            return text_result(message["params"]["arguments"]["text"])
    return None


def answer(message: Json, mode: str) -> Json | None:
    if mode == "untyped":
        return answer_untyped(message)
    params = message.get("params", {})
    match message["method"]:
        case "initialize":
            return {
                "protocolVersion": "2024-11-05" if mode == "old" else "2025-06-18",
                "capabilities": {"tools": {"listChanged": True}, "prompts": {}, "resources": {}},
                "serverInfo": {"name": "plain", "version": "1"},
            }
        case "tools/list":
            return LISTS.get(mode, list_tools)(params)
        case "tools/call" if params["name"] != "error":
            return call(params["name"], params.get("arguments", {}), params)
        case "prompts/list":
            return {"prompts": PROMPTS}
        case "prompts/get":
            text = f"Review {params['arguments']}; see @notes.txt"
            return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
        case "resources/list":
            return {"resources": [{"uri": "note://one", "name": "one"}]}
        case "resources/read":
            return {"contents": [{"uri": params["uri"], "text": f"content of {params['uri']}"}]}
    return None


def main() -> None:
    mode = sys.argv[1] if len(sys.argv) > 1 else ""
    MODES.get(mode, lambda: None)()
    while True:
        message = read()
        if mode == "strict" and message.get("method") == "server/discover":
            sys.exit(1)
        if "id" not in message or "method" not in message:
            continue
        result = answer(message, mode)
        if result is None:
            send(id=message["id"], error={"code": -32601, "message": "there is no such method"})
        else:
            send(id=message["id"], result=result)
        if mode == "brief" and message["method"] == "resources/templates/list":
            sys.exit()


if __name__ == "__main__":
    main()
