"""What a command line would run and touch, as far as that can be known without running it."""
