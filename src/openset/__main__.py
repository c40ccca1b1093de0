"""``python -m openset``: the command line."""

from openset.cli import main

if __name__ == "__main__":
    main()
