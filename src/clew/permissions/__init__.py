"""May a tool call run? Rules, modes and grants in; a decision with its reason out."""
