"""Validator keys: key files, mnemonics, remote signers."""
