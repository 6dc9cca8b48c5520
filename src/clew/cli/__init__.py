"""The command line: arguments, print mode, the prompt, the demo."""
