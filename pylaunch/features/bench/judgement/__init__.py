"""Communication tests, decided: bandwidths, sizes, rounds of pairs, slow nodes, bounds. Pure.

sweep          collectives, the bandwidths of nccl-tests, and sizes that a person may choose
measurements   lines of ranks, decoded
pairs          rates between nodes, and suspects among nodes and links, from rounds of disjoint pairs
confirmation   suspects measured again, and the verdict
bounds         the tightest bound that the hardware sets
ranks/         the program that measures; shipped to the nodes
"""
