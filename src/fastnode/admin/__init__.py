"""What an operator does with a running node: the admin port's key, settings, keystore."""
