"""Where blocks come from: one file per kind of source, all behind ``base.BlockSource``."""
