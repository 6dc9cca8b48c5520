"""Runs the user's hooks: programs, servers and prompts that a session calls at fixed points."""
