"""The command line: options, what each command does, what is shown of it."""
