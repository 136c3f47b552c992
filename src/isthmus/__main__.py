"""``python -m isthmus``: the command line."""

from isthmus.cli import main

main()
