"""`python -m kcli`."""

from kcli.cli import main

main()
