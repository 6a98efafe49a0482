"""The command line. One small module per command; only the one that was asked for is imported.

main.py       from words to a command, and from errors to one line and an exit code
commands.py   the list of commands
house.py      what commands need of the floors above
options.py    every knob as an option, and --config, --json
output.py     tables and JSON on standard output

A command module has `register(parser)`, which declares its options, and `run(args, house)`, which gives the exit code.
Its docstring is its help: the first line as summary, the rest as description.
"""
