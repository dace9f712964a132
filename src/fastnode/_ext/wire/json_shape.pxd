# Nothing of this kernel is used by others.
