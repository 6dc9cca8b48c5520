"""Pictures of the terminal for README and docs, recorded from the real program."""
