"""Background tasks: their life, groups, worktrees, and durable execution on many machines."""
