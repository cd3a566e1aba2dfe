"""Program of the ranks of a drill. It is shipped to the nodes; nothing here is imported by pylaunch."""
