"""Commands: what a person types after a slash, and what a model may invoke through one tool."""
