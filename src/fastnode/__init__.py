"""fastnode: a layer-2 rollup node made for serving."""

__version__ = "0.1.0"
