"""Parts of a node beside answering: what each role needs, does, and says of itself."""
