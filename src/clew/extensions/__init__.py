"""What comes from outside: commands, skills, agent definitions, memory, the project itself."""
