"""The interpreter of the public virtual machine."""
