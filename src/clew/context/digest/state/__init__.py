"""Where the work stands: checks, repository, files, tasks, plan."""
