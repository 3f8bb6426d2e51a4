"""The moves of the Markov chain: one file each, each leaving the posterior invariant on its own.

A move is a plain function ``(key, state, ...) -> state`` (some return what they observed as well).
All randomness is a function of the key, which names seed, chain and sweep; a move is applied once
in a sweep.
"""
