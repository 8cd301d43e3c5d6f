"""`python -m penstock` is the `penstock` program."""

from penstock.cli import main

main()
