"""Plugins in the format of Claude Code: what one is, and what it adds to a session."""
