"""One module per command: `add_flags(parser)`, `USES`, `EXAMPLES`, `run(options)`."""
