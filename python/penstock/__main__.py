"""`python -m penstock` is the `penstock` program."""

import sys


def main() -> None:
    """The program. Ctrl-C while it is still loading ends it as later: one line, exit code 130."""
    try:
        from penstock import cli
    except BaseException as problem:
        behind: BaseException | None = problem
        while behind is not None and not isinstance(behind, KeyboardInterrupt):
            behind = behind.__cause__ or behind.__context__
        if behind is None:
            raise
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
