"""The agent's command line. Each verb prints one JSON object, or speaks the wire, or is a rank."""

import sys

if __name__ == "__main__":
    if sys.argv[1:] == ["rank"]:
        from pylaunch.agent.shim import main
    else:
        from pylaunch.agent.commands import main
    sys.exit(main())
