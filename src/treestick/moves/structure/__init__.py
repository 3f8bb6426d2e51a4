"""Moves on the tree itself: valid changes of several nodes and many data at once.

All of them see the tree partition with the sticks integrated out, and the parameters of its nodes.
They work on a :class:`~treestick.moves.structure.hull.Hull`, which is taken from a state, changed
by any number of moves, and turned into a state again.
"""
