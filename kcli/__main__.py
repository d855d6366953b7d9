"""The entry point of `python -m kcli`."""

from kcli.cli import main

main()
