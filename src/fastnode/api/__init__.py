"""The methods: handlers by subject, parameter types, records, schemas."""
