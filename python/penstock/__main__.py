"""`python -m penstock` is the `penstock` program."""

import sys


def main() -> None:
    """The program. Ctrl-C while it is still loading ends it as later: one line, exit code 130."""
    try:
        from penstock import cli
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
