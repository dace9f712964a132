"""Readable pure-Python twins of the compiled kernels in :mod:`fastnode._ext`, under the same tests."""
