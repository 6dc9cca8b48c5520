"""The digest: what code knows about the messages that leave a view, quoted or counted."""
