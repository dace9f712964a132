"""What people who work on fastnode use; a node in service imports nothing from here."""
