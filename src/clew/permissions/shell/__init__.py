"""Static analysis of bash command lines: the commands they run and the files they use."""
