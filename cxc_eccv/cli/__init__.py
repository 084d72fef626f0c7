"""The command line: a file per command, or for two of one subject; a command imports what it needs when it runs."""
