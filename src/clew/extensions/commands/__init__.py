"""Slash commands, typed by users or run by a model through the tool `ExecuteCommand`."""
