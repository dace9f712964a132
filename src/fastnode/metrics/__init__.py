"""Metrics as monitoring systems read them."""
