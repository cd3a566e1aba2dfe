"""Program of the ranks of `pylaunch bench`. It is shipped to the nodes; of it, pylaunch imports `rounds` only."""
