"""Extensions of a session: commands, skills, agents, project memory and instructions."""
