"""Communication tests, decided: bandwidths, rounds of pairs, slow nodes. Pure.

measurements   lines of ranks, decoded, and their bandwidths
pairs          rates between nodes, and suspects among nodes and links, from rounds of disjoint pairs
confirmation   suspects measured again, and the verdict
ranks/         the program that measures; shipped to the nodes
"""
