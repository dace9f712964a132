"""The five state trees: every root recomputed, every witness served.

``WorldState`` (state.py) is the writer: it applies, undoes and checks blocks.  ``WorldStateView``
(view.py) is what a request reads from.
"""
