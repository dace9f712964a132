"""Compiled kernels: bytes in, bytes out.  Import them through :mod:`fastnode.kernels`."""
