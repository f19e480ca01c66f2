"""The `opprof` command: a module for each of its subcommands, which may use every other package."""
