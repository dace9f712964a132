"""Tools for those who work on fastnode; a node in service imports nothing from here."""
