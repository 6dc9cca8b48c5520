"""One line to an agent that knows its project: `InteractiveSession` and `create_query`."""
