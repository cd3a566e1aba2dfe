"""Communication tests, decided: bandwidths, sizes, rounds of pairs, slow nodes, bounds. Pure.

operations     collectives, and the bandwidths of nccl-tests
sweep          sizes, iterations and limits that a person may choose
measurements   lines of ranks, decoded
pairs          suspects among nodes and links, from rounds of disjoint pairs
confirmation   suspects measured again, and the verdict
bounds         the tightest bound that the hardware sets
rates          rates between nodes, from the lines of their ranks
plots          rates of pairs as SVG
ranks/         the program that measures; shipped to the nodes
"""
