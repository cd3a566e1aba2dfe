"""One module per verb: the work that the verb does, without flags and without output.

A workflow takes values, returns values and raises PylaunchError; progress arrives at callbacks of its caller. It prints
nothing, reads no terminal and keeps no state between calls: a program can call it as the command line does.
"""
