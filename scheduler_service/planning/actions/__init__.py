"""The five actions of a cycle, one module each; they do not know each other."""
