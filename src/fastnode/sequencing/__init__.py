"""Proposing checkpoints: whose slot it is, what is built in it and when, who attests, and what becomes of it on L1."""
