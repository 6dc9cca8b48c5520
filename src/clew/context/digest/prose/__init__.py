"""What the agent wrote: sentences with decisions, failures and open items."""
