"""`python -m pylaunch` is `pylaunch`."""

from pylaunch.cli.main import main

if __name__ == "__main__":
    main()
