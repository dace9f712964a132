"""Requests and answers: scanning, splicing, compression, counting."""
