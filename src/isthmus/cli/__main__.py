"""``python -m isthmus.cli``."""

from isthmus.cli import main

main()
