# Called from Python alone.
