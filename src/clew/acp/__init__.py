"""`clew acp`: sessions for editors, over the Agent Client Protocol."""
