"""The user's requests word for word, and how each turn ended."""
