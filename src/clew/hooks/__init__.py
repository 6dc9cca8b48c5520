"""Programs, servers and prompts of the user's own that a session consults at fixed points."""
