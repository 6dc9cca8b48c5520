"""Decides whether a tool call may run, from rules, the permission mode and session grants."""
